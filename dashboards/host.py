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

BOARD = Board(
    "gpustall-host",
    "GPU stalls / Host",
    "What does the machine do to these jobs?",
    (Row("Disks", _DISKS), Row("Processes", _ENDS)),
)
