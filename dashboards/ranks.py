"""Board Ranks: the rank that the others wait for. For jobs on several GPUs and nodes."""

from __future__ import annotations

from dashboards.boards import (
    ON_NODE,
    WORKLOAD,
    Board,
    Row,
    link_to_workload,
    lost_share,
    named,
    processes,
    workload_series,
)
from dashboards.panels import Column, Query, bars, graph, heatmap, stat, table
from dashboards.workload import quantile_of

_WAIT = "gpustall_nccl_wait_seconds"
_COMMUNICATORS = workload_series("gpustall_nccl_communicator_info")


def _waits() -> str:
    """Share of a rank's time, from a classic or a native histogram.

    Of the communicator that it waits for longest: a call that waits for several of them is in the histogram of each. At most 1,
    since a wait is counted when it ends, and may have begun before the interval.
    """
    classic, native = workload_series(f"{_WAIT}_sum"), workload_series(_WAIT)
    by = f"{WORKLOAD}, communicator"
    waits = (
        f"sum by ({by}) (rate({classic}[$__rate_interval]))"
        f" or histogram_sum(sum by ({by}) (rate({native}[$__rate_interval])))"
    )
    return f"clamp_max(max by ({WORKLOAD}) ({waits}) / {processes(WORKLOAD)}, 1)"


def _lag(span: str) -> str:
    """Mean seconds by which a rank enters a collective after the first one of its node."""
    lag, enqueued = (
        f"sum by ({WORKLOAD}) (rate({workload_series(name)}[{span}]))"
        for name in ("gpustall_nccl_arrival_lag_seconds_total", "gpustall_nccl_enqueued_total")
    )
    return f"{lag} / ({enqueued} > 0)"


_NUMBERS = (
    stat("Ranks", "Ranks with a communicator.", f"count(count by ({WORKLOAD}) ({_COMMUNICATORS}))"),
    stat(
        "Communicators",
        "Different communicators, over all ranks.",
        f"count(count by (hash) ({_COMMUNICATORS}))",
    ),
    stat(
        "Time in collectives",
        "Mean share of time that a rank waits for collectives.",
        f"avg({_waits()})",
        "percentunit",
        decimals=1,
        width=8,
    ),
    stat(
        "Largest lag",
        "Mean time by which the last rank enters a collective after the first one of its node.",
        f"max({_lag('$__rate_interval')})",
        "s",
        decimals=1,
        width=8,
        thresholds=((None, "green"), (0.001, "yellow"), (0.01, "red")),
    ),
)

_OF_RANK = link_to_workload("Node", "Pod", "Container", "Rank")

_RANKS = (
    table(
        "Ranks",
        "A late rank waits least, arrives last, and loses time to its own host. If it loses nothing, check its GPU.",
        [
            Query(_waits()),
            Query(_lag("$__rate_interval")),
            Query(lost_share(WORKLOAD)),
            Query(quantile_of(0.5, "gpustall_step_duration_seconds", WORKLOAD)),
        ],
        [
            Column("rank", "Rank", is_number=True, link=_OF_RANK, link_title="Board Workload"),
            Column("node", "Node"),
            Column("pod", "Pod"),
            Column("container", "Container"),
            Column("Value #A", "Waiting", "percentunit"),
            Column("Value #B", "Lag", "s"),
            Column("Value #C", "Lost time", "percentunit"),
            Column("Value #D", "Step, median", "s"),
        ],
        sort=("Rank", False),
        width=16,
        height=10,
    ),
    bars(
        "Lag, by rank",
        "Mean time after the first rank of the node enters a collective. The other ranks wait for the last one.",
        Query(f"sort_desc({named(_lag('$__range'))})", ON_NODE),
        "s",
        width=8,
        height=10,
    ),
)

_OVER_TIME = (
    graph(
        "Waits for collectives",
        "Share of time. The rank whose line is lowest while the others are high is the one that they wait for.",
        Query(named(_waits()), ON_NODE),
        unit="percentunit",
    ),
    graph(
        "Waits less than the median of its communicator",
        "Across nodes, from recording rules: how much less than the median a rank waits, 0 for one that waits longer."
        " GpuStallStragglingRank fires for outliers.",
        Query(named(f"clamp_min({workload_series('rank:gpustall_nccl_wait:shortfall')}, 0)"), ON_NODE),
        unit="percentunit",
    ),
    graph(
        "Lost time, by rank",
        "Share of time lost because the rank's own host was late.",
        Query(named(lost_share(WORKLOAD)), ON_NODE),
        unit="percentunit",
    ),
    graph(
        "Open collectives",
        "Enqueued and not known to be complete. A constant number above zero is a hang.",
        Query(
            named(
                f"sum by ({WORKLOAD}) ({workload_series('gpustall_nccl_enqueued_total')})"
                f" - sum by ({WORKLOAD}) ({workload_series('gpustall_nccl_completed_total')})"
            ),
            ON_NODE,
        ),
    ),
    graph(
        "Bytes in collectives",
        "Bytes per second, as the callers passed them.",
        Query(
            f"sum by (operation) (rate({workload_series('gpustall_nccl_operation_bytes_total')}[$__rate_interval]))",
            "{{operation}}",
        ),
        unit="Bps",
    ),
    graph(
        "NCCL calls, 99th percentile",
        "Host time to enqueue, not the time on the GPU.",
        Query(quantile_of(0.99, "gpustall_nccl_operation_duration_seconds", "operation"), "{{operation}}"),
        unit="s",
    ),
)

_HOW_LONG = "Duration of synchronising calls behind a collective."
_STEPS = "Duration of steps."


def _heatmaps(*, is_native: bool) -> Row:
    suffix, by = ("", "") if is_native else ("_bucket", " by (le)")
    return Row(
        "Native histograms" if is_native else "Classic histograms",
        (
            heatmap(
                "Waits for collectives",
                _HOW_LONG,
                f"sum{by} (rate({workload_series(_WAIT + suffix)}[$__rate_interval]))",
                is_native=is_native,
            ),
            heatmap(
                "Steps",
                _STEPS,
                f"sum{by} (rate({workload_series('gpustall_step_duration_seconds' + suffix)}[$__rate_interval]))",
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
        Row("Ranks", _RANKS),
        Row("Over time", _OVER_TIME),
        _heatmaps(is_native=True),
        _heatmaps(is_native=False),
    ),
)
