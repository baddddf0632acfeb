"""Board Host: CPUs, memory, network, disks, processes and GPUs of the machines. For operators of nodes."""

from __future__ import annotations

from dashboards.boards import (
    WITH_QUANTILES,
    Board,
    Row,
    container_series,
    counted,
    mean_of,
    node_series,
    or_none,
    quantile_of,
    workload_series,
)
from dashboards.panels import CPUS, GPUS, TASKS, THREADS, Panel, Query, bars, graph

_WAITED = workload_series("gpustall_block_wait_seconds_total")
_PROCESSES = workload_series("gpustall_workload_info")
_WITH_CULPRIT = 'culprit!=""'
_CULPRITS = workload_series("gpustall_culprit_seconds_total", 'cause=~"block_io|major_fault"', _WITH_CULPRIT)
_BYTES = node_series("gpustall_block_bytes_total")
_EXITS = workload_series("gpustall_process_exits_total", 'outcome!="ok"')


_OF_DISK = "{{node}} {{device}} {{direction}}"


def _disk_time(title: str, description: str, metric: str) -> Panel:
    """Mean and quantile of each disk: over all nodes, those of one slow disk would not be seen."""
    by = ("node", "device", "direction")
    return graph(
        title,
        description + WITH_QUANTILES,
        Query(mean_of(node_series, metric, *by), f"{_OF_DISK}: mean"),
        Query(quantile_of(0.99, node_series, metric, *by), f"{_OF_DISK}: 99th percentile"),
        unit="s",
        no_value="no disk requests",
    )


_NOT_MEASURED = "not measured here"
_OF_CPUS = 'cause=~"cpu_contention|cpu_oversubscribed|cpu_quota|irq|exporter"'
_OF_CONTAINER = "{{container}} on {{node}}"


def _by_container(expression: str) -> str:
    """Sums by node and container; processes outside containers have a name as well."""
    return f'label_replace({expression}, "container", "outside containers", "container", "^$")'


_CPUS = (
    graph(
        "GPU time lost to CPUs, by cause",
        "As a number of GPUs: threads that feed GPUs wait for a CPU. How busy the CPUs are is not measured here; node_exporter"
        " has node_cpu_seconds_total.",
        Query(
            or_none(
                "sum by (node, cause)"
                f" (rate({workload_series('gpustall_lost_seconds_total', _OF_CPUS)}[$__rate_interval]))",
                _PROCESSES,
                *("cause", "node"),
            ),
            "{{series}}",
        ),
        unit=GPUS,
        is_stacked=True,
    ),
    bars(
        "Culprits on CPUs",
        "Programs that held the CPUs that these threads waited for, by the GPUs that they cost on average over the time range.",
        Query(
            or_none(
                "sort_desc(sum by (culprit)"
                f" (rate({workload_series('gpustall_culprit_seconds_total', _OF_CPUS, _WITH_CULPRIT)}[$__range])))",
                _PROCESSES,
                "culprit",
            ),
            "{{culprit}}",
        ),
        GPUS,
    ),
    graph(
        "CPU time taken by the hypervisor and interrupts",
        "As a number of CPUs.",
        Query(
            f"sum by (node) (rate({node_series('gpustall_cpu_steal_seconds_total')}[$__rate_interval]))",
            "{{node}}: hypervisor",
        ),
        Query(
            f"sum by (node) (rate({node_series('gpustall_cpu_irq_seconds_total')}[$__rate_interval]))"
            f" + sum by (node) (rate({node_series('gpustall_cpu_softirq_seconds_total')}[$__rate_interval]))",
            "{{node}}: interrupts",
        ),
        unit=CPUS,
        no_value=_NOT_MEASURED,
    ),
    graph(
        "Throttling by CPU limits",
        "As a number of CPUs, by container. A container without a limit is not shown.",
        Query(
            _by_container(
                "sum by (node, container)"
                f" (rate({container_series('gpustall_cpu_quota_throttled_seconds_total')}[$__rate_interval]))"
            ),
            _OF_CONTAINER,
        ),
        unit=CPUS,
        no_value=_NOT_MEASURED,
    ),
)

_RECLAIM = "gpustall_memory_reclaim_duration_seconds"

_MEMORY_OF_HOST = (
    graph(
        "Memory of containers",
        "With page cache, their limits, and what is swapped out. Memory of the machine is not measured here; node_exporter has"
        " node_memory_MemAvailable_bytes.",
        Query(
            _by_container(f"sum by (node, container) ({container_series('gpustall_memory_used_bytes')})"),
            f"{_OF_CONTAINER}: used",
        ),
        Query(
            _by_container(f"sum by (node, container) ({container_series('gpustall_memory_limit_bytes')})"),
            f"{_OF_CONTAINER}: limit",
        ),
        Query(
            or_none(
                _by_container(f"sum by (node, container) ({workload_series('gpustall_memory_swap_bytes')})"),
                _PROCESSES,
                *("container", "node"),
            ),
            "{{series}}: swapped out",
        ),
        unit="bytes",
        no_value=_NOT_MEASURED,
    ),
    graph(
        "Direct reclaim",
        "Tasks of a container that are in direct reclaim at a time, traced or not.",
        Query(
            or_none(
                _by_container(
                    f"sum by (node, container) (rate({container_series(f'{_RECLAIM}_sum')}[$__rate_interval]))"
                    " or histogram_sum(sum by (node, container)"
                    f" (rate({container_series(_RECLAIM)}[$__rate_interval])))"
                ),
                _PROCESSES,
                *("container", "node"),
            ),
            "{{series}}",
        ),
        unit=TASKS,
        no_value=_NOT_MEASURED,
    ),
    graph(
        "Major faults",
        "Pages per second that had to be read.",
        Query(
            _by_container(
                "sum by (node, container)"
                f" (rate({container_series('gpustall_memory_major_faults_total')}[$__rate_interval]))"
            ),
            _OF_CONTAINER,
        ),
        unit="ops",
        no_value=_NOT_MEASURED,
    ),
    graph(
        "OOM kills",
        "Processes that the kernel killed for lack of memory, within four scrapes.",
        Query(
            _by_container(
                "sum by (node, container)"
                f" {counted(container_series('gpustall_memory_oom_kills_total'), '$__rate_interval')}"
            ),
            _OF_CONTAINER,
        ),
        no_value=_NOT_MEASURED,
    ),
)

_NETWORK = (
    graph(
        "Drops and errors of interfaces",
        "Packets per second that interfaces and their queues dropped, or that had errors. Throughput is not measured here;"
        " node_exporter has node_network_receive_bytes_total.",
        *(
            Query(
                or_none(
                    "sum by (node, interface, direction)"
                    f" (rate({node_series(f'gpustall_network_{what}_total')}[$__rate_interval])) > 0",
                    _PROCESSES,
                    *("node", "interface", "direction"),
                ),
                f"{{{{series}}}}: {legend}",
            )
            for what, legend in (
                ("interface_drops", "dropped"),
                ("queue_drops", "queue"),
                ("interface_errors", "errors"),
            )
        ),
        unit="pps",
        limit=10,
    ),
    graph(
        "TCP retransmits, by container",
        "Segments per second that the sockets of a container retransmitted, traced or not; `handshake` means that a peer does"
        " not answer.",
        Query(
            or_none(
                _by_container(
                    "sum by (node, container, kind)"
                    f" (rate({container_series('gpustall_network_retransmits_total')}[$__rate_interval])) > 0"
                ),
                _PROCESSES,
                *("container", "node", "kind"),
            ),
            "{{series}}",
        ),
        unit="pps",
    ),
)

_DISKS = (
    graph(
        "Waits for disks",
        "Threads of the jobs, workers included, that sleep at a time until a disk request completes.",
        Query(
            or_none(f"sum by (node, device) (rate({_WAITED}[$__rate_interval]))", _PROCESSES, *("node", "device")),
            "{{series}}",
        ),
        unit=THREADS,
        is_stacked=True,
    ),
    bars(
        "Culprits of disk waits",
        "Programs that used the disks for which jobs waited, by the GPUs that they cost on average over the time range.",
        Query(
            or_none(f"sort_desc(sum by (culprit) (rate({_CULPRITS}[$__range])))", _PROCESSES, "culprit"), "{{culprit}}"
        ),
        GPUS,
    ),
    _disk_time(
        "Device time",
        "From when a request was given to the device until it completed, for all processes of the machine.",
        "gpustall_block_device_duration_seconds",
    ),
    _disk_time(
        "Queue time",
        "From when the kernel made a request until it was given to the device.",
        "gpustall_block_queue_duration_seconds",
    ),
    graph(
        "Bytes, by container",
        "Completed bytes per second, by container; `none` for processes outside containers.",
        Query(
            f'label_replace(sum by (container, direction) (rate({_BYTES}[$__rate_interval])), "container", "none",'
            ' "container", "^$")',
            "{{container}} {{direction}}",
        ),
        unit="Bps",
    ),
    graph(
        "Disk errors",
        "Requests per second that completed with an error.",
        Query(
            f"sum by (node, device, direction) (rate({node_series('gpustall_block_errors_total')}[$__rate_interval]))",
            _OF_DISK,
        ),
        unit="ops",
    ),
)

_PROCESS_ENDS = (
    graph(
        "Abnormal ends of processes",
        "Traced processes and workers that ended by a signal, an OOM kill or with an error, within four scrapes.",
        Query(
            or_none(
                f"sum by (member, outcome, code) {counted(_EXITS, '$__rate_interval')} > 0",
                _PROCESSES,
                *("member", "outcome", "code"),
            ),
            "{{series}}",
        ),
    ),
    graph(
        "New processes and threads",
        "Per second. Starting workers in every epoch, or threads in every step, costs time.",
        Query(
            f"sum by (kind) (rate({workload_series('gpustall_process_forks_total')}[$__rate_interval]))",
            "{{kind}}",
        ),
        unit="ops",
    ),
)


def _each(metric: str, *matchers: str) -> str:
    """A gauge of each GPU, by node and number."""
    return f"max by (node, gpu) ({node_series(metric, *matchers)})"


_CLOCK, _CLOCK_MAX = (f"gpustall_device_clock{kind}_hertz" for kind in ("", "_max"))
_HEAT, _HEAT_LIMIT = (f"gpustall_device_temperature{kind}_celsius" for kind in ("", "_slowdown"))
_OF_SMS, _OF_GPU = 'part="sm"', 'part="gpu"'
_POWER, _POWER_LIMIT = (f"gpustall_device_power{kind}_watts" for kind in ("", "_limit"))
_THROTTLED = node_series("gpustall_device_throttled_seconds_total")
_UNTRACED = node_series("gpustall_device_untraced_memory_bytes")
_MEMORY = node_series("gpustall_device_memory_bytes", 'mig=""', 'state!="used"')
_TRACED = workload_series("gpustall_device_process_memory_bytes")
_GPU_LINK_BYTES = {one: node_series(f"gpustall_device_{one}_bytes_total") for one in ("pcie", "nvlink")}
_XIDS = node_series("gpustall_device_xid_errors_total")
_ECC = node_series("gpustall_device_ecc_errors_total")
_DEVICES = node_series("gpustall_device_up")

_NO_GPUS = "no GPU that the driver answers for"

_GPUS = (
    graph(
        "Throttled clocks, by reason",
        "GPUs that are throttled at a time, sampled. `power` is normal for a busy GPU; heat, brake and slowdown are not.",
        Query(
            or_none(f"sum by (reason) (rate({_THROTTLED}[$__rate_interval]))", _DEVICES, "reason"),
            "{{reason}}",
        ),
        unit=GPUS,
        no_value=_NO_GPUS,
    ),
    graph(
        "SM clock",
        "Current clock as a share of the highest possible one. An idle GPU lowers it.",
        Query(
            f"{_each(_CLOCK, _OF_SMS)} / {_each(_CLOCK_MAX, _OF_SMS)}",
            "{{node}} {{gpu}}",
        ),
        unit="percentunit",
        max_value=1,
        no_value=_NO_GPUS,
    ),
    graph(
        "Power and temperature",
        "Power as a share of the enforced limit; temperature as a share of the slowdown temperature.",
        Query(f"{_each(_POWER)} / {_each(_POWER_LIMIT)}", "power {{node}} {{gpu}}"),
        Query(
            f"{_each(_HEAT, _OF_GPU)} / {_each(_HEAT_LIMIT)}",
            "temperature {{node}} {{gpu}}",
        ),
        unit="percentunit",
        no_value=_NO_GPUS,
    ),
    graph(
        "GPU memory, by owner",
        "Of all GPUs: traced processes, other processes, reserved by the driver, and free.",
        Query(f"sum({_TRACED})", "traced"),
        Query(f"sum({_UNTRACED})", "others"),
        Query(f"sum by (state) ({_MEMORY})", "{{state}}"),
        unit="bytes",
        no_value=_NO_GPUS,
        is_stacked=True,
    ),
    graph(
        "PCIe and NVLink",
        "Bytes per second over all links of each GPU, in its direction. PCIe is absent where the driver does not count it.",
        *(
            Query(
                f"sum by (node, gpu, direction) (rate({metric}[$__rate_interval]))",
                f"{link} {{{{node}}}} {{{{gpu}}}} {{{{direction}}}}",
            )
            for link, metric in _GPU_LINK_BYTES.items()
        ),
        unit="Bps",
        no_value=_NO_GPUS,
    ),
    graph(
        "XID and ECC errors",
        "In the time range. The runbook lists XID errors that end jobs; uncorrected ECC errors do.",
        Query(
            or_none(f"sum by (node, gpu, xid) {counted(_XIDS)} > 0", _DEVICES, "xid", "node", "gpu"),
            "XID: {{series}}",
        ),
        Query(
            or_none(f"sum by (node, gpu, kind) (increase({_ECC}[$__range])) > 0", _DEVICES, "kind", "node", "gpu"),
            "ECC: {{series}}",
        ),
        no_value=_NO_GPUS,
    ),
)

BOARD = Board(
    "gpustall-host",
    "GPU stalls / Host",
    "What of the machine slows the jobs: CPUs, memory, network, disks, processes, GPUs?",
    (
        Row("CPUs", _CPUS),
        Row("Memory", _MEMORY_OF_HOST),
        Row("Network", _NETWORK),
        Row("Disks", _DISKS),
        Row("Processes", _PROCESS_ENDS),
        Row("GPUs", _GPUS),
    ),
)
