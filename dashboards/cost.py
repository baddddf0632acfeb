"""Board Cost and capacity: GPUs used, lost and idle, and the cost of lost time. For those who pay for GPUs."""

from __future__ import annotations

from dashboards.boards import Board, Row, workload_series
from dashboards.panels import Column, Query, bars, graph, stat, table

_GPUS = workload_series("rank:gpustall_gpus:count")
_IDLE = workload_series("rank:gpustall_gpus_idle:count")
_LOST = workload_series("rank:gpustall_gpus_lost:rate5m")
_LOST_SHARE = (
    f"clamp_max(sum({_LOST}) / sum({_GPUS}), 1)"  # the loss is a mean of five minutes, the GPUs are those of now
)
_DOLLARS = workload_series("rank:gpustall_lost:usd_per_hour")
_JOB = "namespace, training_job"
_NO_IDLE = f"(sum({_IDLE}) or sum({_GPUS}) * 0)"
_JOBS = workload_series("rank:gpustall_training_job:info")


def _of_jobs(series: str) -> str:
    """Sum by job; 0 for a job without data."""
    return f"sum by ({_JOB}) ({series}) or sum by ({_JOB}) ({_GPUS}) * 0"


_NUMBERS = (
    stat("GPUs", "Processes that use a GPU.", f"sum({_GPUS})"),
    stat(
        "Used",
        "Share of GPU time that is neither lost nor idle.",
        f"clamp_min(1 - (sum({_LOST}) + {_NO_IDLE}) / sum({_GPUS}), 0)",
        "percentunit",
        decimals=1,
    ),
    stat(
        "Lost",
        "Share of GPU time lost because the host was late, over five minutes.",
        _LOST_SHARE,
        "percentunit",
        decimals=1,
    ),
    stat(
        "Idle",
        "Share of GPUs whose rank made no CUDA call for five minutes.",
        f"{_NO_IDLE} / sum({_GPUS})",
        "percentunit",
        decimals=1,
    ),
    stat(
        "Loss per hour",
        "In dollars at the present pace, with the prices of rates.toml.",
        f"sum({_DOLLARS})",
        "currencyUSD",
    ),
    stat(
        "Loss in range",
        "In dollars, over the time range.",
        f"sum_over_time(sum({_DOLLARS})[$__range:1m]) / 60",
        "currencyUSD",
    ),
)

_CAPACITY = (
    graph(
        "GPUs",
        "GPUs used, lost and idle; the sum is all GPUs.",
        Query(f"clamp_min(sum({_GPUS}) - sum({_LOST}) - {_NO_IDLE}, 0)", "used"),
        Query(f"{_LOST_SHARE} * sum({_GPUS})", "lost"),
        Query(_NO_IDLE, "idle"),
        is_stacked=True,
    ),
    graph(
        "Lost GPU time, by training job",
        "As a number of GPUs.",
        Query(f"sum by ({_JOB}) ({_LOST})"),
        is_stacked=True,
    ),
    table(
        "Training jobs",
        "The name is SLURM's job id, else the run id of torchrun, else the pod, else the container.",
        [
            Query(f"sum by ({_JOB}) ({_GPUS})"),
            Query(f"clamp_max(sum by ({_JOB}) ({_LOST}) / on ({_JOB}) sum by ({_JOB}) ({_GPUS}), 1)"),
            Query(f"({_of_jobs(_IDLE)}) / on ({_JOB}) sum by ({_JOB}) ({_GPUS})"),
            Query(
                f"sum by ({_JOB}) (sum without (cause) ({_DOLLARS}) * ignoring (training_job) group_right () {_JOBS})"
            ),
        ],
        [
            Column("namespace", "Namespace"),
            Column("training_job", "Training job"),
            Column("Value #A", "GPUs", "short"),
            Column("Value #B", "Lost", "percentunit"),
            Column("Value #C", "Idle", "percentunit"),
            Column("Value #D", "Loss per hour", "currencyUSD"),
        ],
        sort=("Loss per hour", True),
        height=7,
    ),
)

_COST = (
    graph(
        "Loss per hour, by cause",
        "In dollars, at the pace of the last five minutes.",
        Query(f"sum by (cause) ({_DOLLARS})", "{{cause}}"),
        unit="currencyUSD",
        is_stacked=True,
    ),
    graph(
        "Loss per hour, by namespace",
        "In dollars, at the pace of the last five minutes.",
        Query(f"sum by (cluster, namespace) ({_DOLLARS})"),
        unit="currencyUSD",
        is_stacked=True,
    ),
    bars(
        "Loss in range, by cause",
        "In dollars, over the time range.",
        Query(f"sort_desc(sum_over_time(sum by (cause) ({_DOLLARS})[$__range:1m]) / 60)", "{{cause}}"),
        "currencyUSD",
    ),
    bars(
        "Loss in range, by node",
        "In dollars, over the time range.",
        Query(f"sort_desc(sum_over_time(sum by (node) ({_DOLLARS})[$__range:1m]) / 60)", "{{node}}"),
        "currencyUSD",
    ),
)

BOARD = Board(
    "gpustall-cost",
    "GPU stalls / Cost and capacity",
    "How many GPUs are used, lost and idle, and what does the loss cost?",
    (Row("Now", _NUMBERS), Row("Capacity", _CAPACITY), Row("Cost", _COST)),
    since="now-24h",
)
