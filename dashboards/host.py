"""Board Host: disks, processes and GPUs of the machines. For operators of nodes."""

from __future__ import annotations

from dashboards.boards import Board, Row, node_series, or_none, workload_series
from dashboards.panels import Query, bars, graph

_WAITED = workload_series("gpustall_block_wait_seconds_total")
_PROCESSES = workload_series("gpustall_workload_info")
_CULPRITS = workload_series("gpustall_culprit_seconds_total", 'cause=~"block_io|major_fault"', 'culprit!=""')
_BYTES = node_series("gpustall_block_bytes_total")
_EXITS = workload_series("gpustall_process_exits_total", 'outcome!="ok"')


def disk_quantile(quantile: float, metric: str) -> str:
    """Quantile by device and direction, from a classic or a native histogram."""
    classic, native = node_series(f"{metric}_bucket"), node_series(metric)
    return (
        f"histogram_quantile({quantile}, sum by (le, device, direction) (rate({classic}[$__rate_interval])))"
        f" or histogram_quantile({quantile}, sum by (device, direction) (rate({native}[$__rate_interval])))"
    )


_DISKS = (
    graph(
        "Waits for disks",
        "Time that threads of the jobs, workers included, slept until a disk request completed, in seconds per second.",
        Query(or_none(f"sum by (device) (rate({_WAITED}[$__rate_interval]))", _PROCESSES, "device"), "{{device}}"),
        is_stacked=True,
    ),
    bars(
        "Culprits of disk waits",
        "Programs that used the disks for which jobs waited, by lost GPU time.",
        Query(
            or_none(f"sort_desc(sum by (culprit) (rate({_CULPRITS}[$__range])))", _PROCESSES, "culprit"), "{{culprit}}"
        ),
        "short",
    ),
    graph(
        "Device time, 99th percentile",
        "From when a request was given to the device until it completed, for all processes of the machine.",
        Query(disk_quantile(0.99, "gpustall_block_device_duration_seconds"), "{{device}} {{direction}}"),
        unit="s",
    ),
    graph(
        "Queue time, 99th percentile",
        "From when the kernel made a request until it was given to the device.",
        Query(disk_quantile(0.99, "gpustall_block_queue_duration_seconds"), "{{device}} {{direction}}"),
        unit="s",
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
            f"sum by (device, direction) (rate({node_series('gpustall_block_errors_total')}[$__rate_interval]))",
            "{{device}} {{direction}}",
        ),
        unit="ops",
    ),
)

_PROCESS_ENDS = (
    graph(
        "Abnormal ends of processes",
        "Traced processes and workers that ended by a signal, an OOM kill or with an error, per second.",
        Query(
            or_none(
                f"sum by (member, outcome, code) (rate({_EXITS}[$__rate_interval]))",
                _PROCESSES,
                "member",
                "outcome",
                "code",
            ),
            "{{member}} {{outcome}} {{code}}",
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

_GPUS = (
    graph(
        "Throttled clocks, by reason",
        "Seconds per second, summed over GPUs, sampled. `power` is normal for a busy GPU; heat, brake and slowdown are not.",
        Query(
            or_none(f"sum by (reason) (rate({_THROTTLED}[$__rate_interval]))", _DEVICES, "reason"),
            "{{reason}}",
        ),
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
    ),
    graph(
        "GPU memory, by owner",
        "Of all GPUs: traced processes, other processes, reserved by the driver, and free.",
        Query(f"sum({_TRACED})", "traced"),
        Query(f"sum({_UNTRACED})", "others"),
        Query(f"sum by (state) ({_MEMORY})", "{{state}}"),
        unit="bytes",
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
    ),
    graph(
        "XID and ECC errors",
        "In the time range. The runbook lists XID errors that end jobs; uncorrected ECC errors do.",
        Query(
            or_none(f"sum by (node, gpu, xid) (increase({_XIDS}[$__range])) > 0", _DEVICES, "node", "gpu", "xid"),
            "XID {{xid}} {{node}} {{gpu}}",
        ),
        Query(
            or_none(f"sum by (node, gpu, kind) (increase({_ECC}[$__range])) > 0", _DEVICES, "node", "gpu", "kind"),
            "ECC {{kind}} {{node}} {{gpu}}",
        ),
    ),
)

BOARD = Board(
    "gpustall-host",
    "GPU stalls / Host",
    "Which disks, processes and GPUs of the machine slow the jobs?",
    (Row("Disks", _DISKS), Row("Processes", _PROCESS_ENDS), Row("GPUs", _GPUS)),
)
