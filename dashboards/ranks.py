"""Board Ranks: the rank that the others wait for. For jobs on several GPUs and nodes."""

from __future__ import annotations

from dashboards.boards import (
    NEEDS_NATIVE,
    ON_NODE,
    WITH_QUANTILES,
    WORKLOAD,
    Board,
    Row,
    link_to_workload,
    lost_share,
    mean_of,
    named,
    processes,
    quantile_of,
    workload_series,
)
from dashboards.panels import Column, Query, bars, graph, heatmap, stat, table
from dashboards.workload import STEP

_CALL = "gpustall_nccl_operation_duration_seconds"
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


_LAG_LATE, _LAG_STRAGGLING = 0.05, 0.1
"""Shares of a step. GpuStallStragglingRank fires where the others wait for a tenth of the time."""
_NO_COLLECTIVES = "no collectives"
_NO_STEPS = "no steps found"


def _lag_of_a_step() -> str:
    """A rank's mean lag as a share of its mean step."""
    return f"clamp_max({_lag('$__rate_interval')} / ({mean_of(workload_series, STEP, WORKLOAD)}), 1)"


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
        "Mean time by which the last rank enters a collective after the first one of its node, as a share of its step. The table"
        " has it in seconds.",
        f"max({_lag_of_a_step()})",
        "percentunit",
        decimals=1,
        width=8,
        thresholds=((None, "green"), (_LAG_LATE, "yellow"), (_LAG_STRAGGLING, "red")),
        no_value=_NO_STEPS,
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
            Query(mean_of(workload_series, STEP, WORKLOAD)),
        ],
        [
            Column("rank", "Rank", is_number=True, link=_OF_RANK, link_title="Board Workload"),
            Column("node", "Node"),
            Column("pod", "Pod"),
            Column("container", "Container"),
            Column("Value #A", "Waiting", "percentunit"),
            Column("Value #B", "Lag", "s"),
            Column("Value #C", "Lost time", "percentunit"),
            Column("Value #D", "Step, mean", "s"),
        ],
        sort=("Rank", False),
        width=16,
        height=10,
        no_value="no ranks",
    ),
    bars(
        "Lag, by rank",
        "Mean time after the first rank of the node enters a collective. The other ranks wait for the last one.",
        Query(f"sort_desc({named(_lag('$__range'))})", ON_NODE),
        "s",
        width=8,
        height=10,
        no_value=_NO_COLLECTIVES,
    ),
)

_OVER_TIME = (
    graph(
        "Waits for collectives",
        "Share of time. The rank whose line is lowest while the others are high is the one that they wait for.",
        Query(named(_waits()), ON_NODE),
        unit="percentunit",
        no_value=_NO_COLLECTIVES,
    ),
    graph(
        "Waits less than the median of its communicator",
        "Across nodes, from recording rules: how much less than the median a rank waits, 0 for one that waits longer."
        " GpuStallStragglingRank fires for outliers.",
        Query(named(f"clamp_min({workload_series('rank:gpustall_nccl_wait:shortfall')}, 0)"), ON_NODE),
        unit="percentunit",
        limit=_LAG_STRAGGLING,
        no_value="needs the alert rules, and a communicator of four ranks",
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
        no_value=_NO_COLLECTIVES,
    ),
    graph(
        "Bytes in collectives",
        "Bytes per second, as the callers passed them.",
        Query(
            f"sum by (operation) (rate({workload_series('gpustall_nccl_operation_bytes_total')}[$__rate_interval]))",
            "{{operation}}",
        ),
        unit="Bps",
        no_value=_NO_COLLECTIVES,
    ),
    graph(
        "Duration of NCCL calls",
        f"Host time to enqueue, not the time on the GPU.{WITH_QUANTILES}",
        Query(mean_of(workload_series, _CALL, "operation"), "{{operation}}: mean"),
        Query(quantile_of(0.99, workload_series, _CALL, "operation"), "{{operation}}: 99th percentile"),
        unit="s",
        no_value=_NO_COLLECTIVES,
    ),
    graph(
        "Step duration, by rank",
        "Mean duration of the steps of each rank.",
        Query(named(mean_of(workload_series, STEP, WORKLOAD)), ON_NODE),
        unit="s",
        no_value=_NO_STEPS,
    ),
    graph(
        "Duration of waits, by rank",
        "Mean duration of synchronising calls behind a collective.",
        Query(named(mean_of(workload_series, _WAIT, WORKLOAD)), ON_NODE),
        unit="s",
        no_value=_NO_COLLECTIVES,
    ),
)

_HEATMAPS = tuple(
    heatmap(title, description, f"sum (rate({workload_series(metric)}[$__rate_interval]))", no_value=NEEDS_NATIVE)
    for title, description, metric in (
        ("Distribution of waits", "Duration of synchronising calls behind a collective.", _WAIT),
        ("Distribution of steps", "Duration of steps.", STEP),
    )
)

BOARD = Board(
    "gpustall-ranks",
    "GPU stalls / Ranks",
    "Which rank do the others wait for?",
    (
        Row("Now", _NUMBERS),
        Row("Ranks", _RANKS),
        Row("Over time", _OVER_TIME),
        Row("Native histograms", _HEATMAPS),
    ),
)
