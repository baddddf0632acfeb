"""Which rank do the others wait for? For jobs on several GPUs and nodes."""

from __future__ import annotations

from dashboards.boards import Board, Row, of_workloads
from dashboards.panels import Column, Query, bars, graph, heatmap, stat, table
from dashboards.workload import quantile_of

_WAIT = "gpustall_nccl_wait_seconds"
_LOST = of_workloads("gpustall_lost_seconds_total")
_COMMUNICATORS = of_workloads("gpustall_nccl_communicator_info")
_RANK = "cluster, node, namespace, pod, container, rank"
"""Two jobs on a node have a rank 0 each."""


def _waits(by: str) -> str:
    """Seconds of waiting in a second, of either kind of histogram."""
    classic, native = of_workloads(f"{_WAIT}_sum"), of_workloads(_WAIT)
    return (
        f"sum by ({by}) (rate({classic}[$__rate_interval]))"
        f" or histogram_sum(sum by ({by}) (rate({native}[$__rate_interval])))"
    )


def _lag(span: str) -> str:
    """Seconds that a rank comes later to a collective than the first one of its node, on the average."""
    lag, enqueued = (
        f"sum by ({_RANK}) (rate({of_workloads(name)}[{span}]))"
        for name in ("gpustall_nccl_arrival_lag_seconds_total", "gpustall_nccl_enqueued_total")
    )
    return f"{lag} / ({enqueued} > 0)"


_NUMBERS = (
    stat("Ranks", "With a communicator.", f"count(count by ({_RANK}) ({_COMMUNICATORS}))"),
    stat(
        "Communicators",
        "Different ones, over all ranks.",
        f"count(count by (hash) ({_COMMUNICATORS}))",
    ),
    stat(
        "Time in collectives",
        "Part of the time in which a rank waits for collectives, on the average.",
        f"avg({_waits(_RANK)})",
        "percentunit",
        decimals=1,
        width=8,
    ),
    stat(
        "Furthest behind",
        "How much later the last rank comes to a collective than the first one of its node, on the average.",
        f"max({_lag('$__rate_interval')})",
        "s",
        decimals=1,
        width=8,
        thresholds=((None, "green"), (0.001, "yellow"), (0.01, "red")),
    ),
)

_WHO = (
    table(
        "Ranks",
        "A late rank waits least, comes last, and loses time to its own host. Where it loses nothing, look at its GPU.",
        [
            Query(_waits(_RANK)),
            Query(_lag("$__rate_interval")),
            Query(f"sum by ({_RANK}) (rate({_LOST}[$__rate_interval]))"),
            Query(quantile_of(0.5, "gpustall_step_duration_seconds", _RANK)),
        ],
        [
            Column("rank", "Rank", is_number=True),
            Column("node", "Node"),
            Column("pod", "Pod"),
            Column("container", "Container"),
            Column("Value #A", "Waits", "percentunit"),
            Column("Value #B", "Behind first", "s"),
            Column("Value #C", "Lost to host", "percentunit"),
            Column("Value #D", "Step, median", "s"),
        ],
        sort=("Rank", False),
        width=16,
        height=10,
    ),
    bars(
        "Comes later than the first",
        "To a collective, on the average. The last one of a node is whom its other ranks wait for.",
        Query(f"sort_desc({_lag('$__range')})", "rank {{rank}} on {{node}}"),
        "s",
        width=8,
        height=10,
    ),
)

_COURSES = (
    graph(
        "Waits for others",
        "Part of the time. The rank whose line is lowest while the others are high is the one that they wait for.",
        Query(_waits(_RANK), "rank {{rank}} on {{node}}"),
        unit="percentunit",
    ),
    graph(
        "Waits less than the median of its communicator",
        "Over all nodes, by the recording rules: how much less than its peers a rank waits. GpuStallStragglingRank is told of"
        " those that stand out.",
        Query(of_workloads("rank:gpustall_nccl_wait:shortfall"), "rank {{rank}} on {{node}}"),
        unit="percentunit",
    ),
    graph(
        "Lost to their own hosts",
        "Part of the time.",
        Query(f"sum by ({_RANK}) (rate({_LOST}[$__rate_interval]))", "rank {{rank}} on {{node}}"),
        unit="percentunit",
    ),
    graph(
        "Collectives that are not done",
        "Enqueued and not yet known to be done. A number that stays and does not move is a hang.",
        Query(
            f"sum by ({_RANK}) ({of_workloads('gpustall_nccl_enqueued_total')})"
            f" - sum by ({_RANK}) ({of_workloads('gpustall_nccl_completed_total')})",
            "rank {{rank}} on {{node}}",
        ),
    ),
    graph(
        "Bytes in collectives",
        "As their callers passed them, in a second.",
        Query(
            f"sum by (operation) (rate({of_workloads('gpustall_nccl_operation_bytes_total')}[$__rate_interval]))",
            "{{operation}}",
        ),
        unit="Bps",
    ),
    graph(
        "NCCL calls, 99th percentile",
        "Host time to enqueue.",
        Query(quantile_of(0.99, "gpustall_nccl_operation_duration_seconds", "operation"), "{{operation}}"),
        unit="s",
    ),
)

_HOW_LONG = "How long synchronising calls waited behind a collective."
_STEPS = "How long steps took."


def _heatmaps(*, is_native: bool) -> Row:
    suffix, by = ("", "") if is_native else ("_bucket", " by (le)")
    return Row(
        "Native histograms" if is_native else "Classic histograms",
        (
            heatmap(
                "Waits for collectives",
                _HOW_LONG,
                f"sum{by} (rate({of_workloads(_WAIT + suffix)}[$__rate_interval]))",
                is_native=is_native,
            ),
            heatmap(
                "Steps",
                _STEPS,
                f"sum{by} (rate({of_workloads('gpustall_step_duration_seconds' + suffix)}[$__rate_interval]))",
                is_native=is_native,
            ),
        ),
        is_collapsed=not is_native,
    )


BOARD = Board(
    "gpustall-ranks",
    "GPU stalls / Ranks",
    "Which rank do the others wait for?",
    (
        Row("Now", _NUMBERS),
        Row("Who", _WHO),
        Row("Course", _COURSES),
        _heatmaps(is_native=True),
        _heatmaps(is_native=False),
    ),
)
