"""What does the machine do to these jobs? For whoever runs the nodes: disks, processes, and what else a chain may name."""

from __future__ import annotations

from dashboards.boards import Board, Row, of_places, of_workloads, or_none
from dashboards.panels import Query, bars, graph

_WAITED = of_workloads("gpustall_block_wait_seconds_total")
_PROCESSES = of_workloads("gpustall_workload_info")
_CULPRITS = of_workloads("gpustall_culprit_seconds_total", 'cause=~"block_io|major_fault"', 'culprit!=""')
_BYTES = of_places("gpustall_block_bytes_total")
_EXITS = of_workloads("gpustall_process_exits_total", 'outcome!="ok"')


def of_disks(quantile: float, metric: str) -> str:
    """By device and direction, whichever kind of histogram Prometheus has."""
    classic, native = of_places(f"{metric}_bucket"), of_places(metric)
    return (
        f"histogram_quantile({quantile}, sum by (le, device, direction) (rate({classic}[$__rate_interval])))"
        f" or histogram_quantile({quantile}, sum by (device, direction) (rate({native}[$__rate_interval])))"
    )


_DISKS = (
    graph(
        "Waiting for disks",
        "Seconds in a second that threads of the jobs, workers included, slept until a request of the device was completed.",
        Query(or_none(f"sum by (device) (rate({_WAITED}[$__rate_interval]))", _PROCESSES, "device"), "{{device}}"),
        is_stacked=True,
    ),
    bars(
        "Who fills them",
        "Programs that used the disks which the jobs waited for, by the GPU time that was lost meanwhile.",
        Query(
            or_none(f"sort_desc(sum by (culprit) (rate({_CULPRITS}[$__range])))", _PROCESSES, "culprit"), "{{culprit}}"
        ),
        "short",
    ),
    graph(
        "On the device, 99th percentile",
        "From when a request was given to the device until it was completed, for everybody on the machine.",
        Query(of_disks(0.99, "gpustall_block_device_duration_seconds"), "{{device}} {{direction}}"),
        unit="s",
    ),
    graph(
        "In the queue, 99th percentile",
        "From when the kernel made a request until it was given to the device.",
        Query(of_disks(0.99, "gpustall_block_queue_duration_seconds"), "{{device}} {{direction}}"),
        unit="s",
    ),
    graph(
        "Bytes, by container",
        "What the disks have completed in a second, for each container, and for all that is in none.",
        Query(
            f'label_replace(sum by (container, direction) (rate({_BYTES}[$__rate_interval])), "container", "none",'
            ' "container", "^$")',
            "{{container}} {{direction}}",
        ),
        unit="Bps",
    ),
    graph(
        "Errors",
        "Requests that a disk has completed with an error, in a second.",
        Query(
            f"sum by (device, direction) (rate({of_places('gpustall_block_errors_total')}[$__rate_interval]))",
            "{{device}} {{direction}}",
        ),
        unit="ops",
    ),
)

_ENDS = (
    graph(
        "Ends that are no success",
        "Traced processes and workers that were ended by a signal or by the kernel, or that told of an error; in a second.",
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
        "In a second. Workers that are made anew in every epoch, or threads in every step, cost time.",
        Query(
            f"sum by (kind) (rate({of_workloads('gpustall_process_forks_total')}[$__rate_interval]))",
            "{{kind}}",
        ),
        unit="ops",
    ),
)


def _each(metric: str, *matchers: str) -> str:
    """A gauge of a GPU, by node and number."""
    return f"max by (node, gpu) ({of_places(metric, *matchers)})"


_CLOCK, _CLOCK_MAX = (f"gpustall_device_clock{kind}_hertz" for kind in ("", "_max"))
_HEAT, _HEAT_LIMIT = (f"gpustall_device_temperature{kind}_celsius" for kind in ("", "_slowdown"))
_OF_SMS, _OF_GPU = 'part="sm"', 'part="gpu"'
_POWER, _POWER_LIMIT = (f"gpustall_device_power{kind}_watts" for kind in ("", "_limit"))
_THROTTLED = of_places("gpustall_device_throttled_seconds_total")
_UNTRACED = of_places("gpustall_device_untraced_memory_bytes")
_MEMORY = of_places("gpustall_device_memory_bytes", 'mig=""', 'state!="used"')
_TRACED = of_workloads("gpustall_device_process_memory_bytes")
_GPU_LINK_BYTES = {one: of_places(f"gpustall_device_{one}_bytes_total") for one in ("pcie", "nvlink")}
_XIDS = of_places("gpustall_device_xid_errors_total")
_ECC = of_places("gpustall_device_ecc_errors_total")
_DEVICES = of_places("gpustall_device_up")

_GPUS = (
    graph(
        "Clocks held down, by reason",
        "Seconds in a second, added up over GPUs, sampled. `power` is usual for a GPU at work; heat, brake and slowdown are not.",
        Query(
            or_none(f"sum by (reason) (rate({_THROTTLED}[$__rate_interval]))", _DEVICES, "reason"),
            "{{reason}}",
        ),
    ),
    graph(
        "SM clock, of the highest",
        "What the clock is now, as a share of what it can be. An idle GPU lowers it.",
        Query(
            f"{_each(_CLOCK, _OF_SMS)} / {_each(_CLOCK_MAX, _OF_SMS)}",
            "{{node}} {{gpu}}",
        ),
        unit="percentunit",
        max_value=1,
    ),
    graph(
        "Power and heat, of their limits",
        "Power as a share of the limit that is enforced; temperature of that at which the hardware holds the clocks down.",
        Query(f"{_each(_POWER)} / {_each(_POWER_LIMIT)}", "power {{node}} {{gpu}}"),
        Query(
            f"{_each(_HEAT, _OF_GPU)} / {_each(_HEAT_LIMIT)}",
            "heat {{node}} {{gpu}}",
        ),
        unit="percentunit",
    ),
    graph(
        "Memory, by who has it",
        "Of all GPUs: what traced processes have, what others have, what the driver has reserved, and what is free.",
        Query(f"sum({_TRACED})", "traced"),
        Query(f"sum({_UNTRACED})", "others"),
        Query(f"sum by (state) ({_MEMORY})", "{{state}}"),
        unit="bytes",
        is_stacked=True,
    ),
    graph(
        "PCIe and NVLink",
        "Bytes in a second over all links of each GPU, as it sees them. PCIe is absent where the driver does not count it.",
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
        "In the time that is shown. The runbook says which XID errors end jobs; uncorrected ECC errors do.",
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
    "What does the machine do to these jobs?",
    (Row("Disks", _DISKS), Row("Processes", _ENDS), Row("GPU device", _GPUS)),
)
