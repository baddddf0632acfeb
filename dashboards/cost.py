"""Board Cost and capacity: GPUs used, lost and idle, and the cost of lost time. For those who pay for GPUs."""

from __future__ import annotations

from dashboards.boards import Board, Row, workload_series
from dashboards.budget import NEEDS_RULES
from dashboards.panels import GPUS, Column, Query, bars, graph, stat, table

_GPUS = workload_series("rank:gpustall_gpus:count")
_IDLE = workload_series("rank:gpustall_gpus_idle:count")
_LOST = workload_series("rank:gpustall_gpus_lost:rate5m")
_LOST_SHARE = (
    f"clamp_max(sum({_LOST}) / sum({_GPUS}), 1)"  # the loss is a mean of five minutes, the GPUs are those of now
)
_DOLLARS = workload_series("rank:gpustall_lost:usd_per_hour")
_JOB = "cluster, namespace, training_job"
_NO_IDLE = f"(sum({_IDLE}) or sum({_GPUS}) * 0)"
_JOBS = workload_series("rank:gpustall_training_job:info")
_RANK = "cluster, job, instance, node, namespace, pod, container, rank"


def _of_jobs(series: str) -> str:
    """Sum by job; 0 for a job without data."""
    return f"sum by ({_JOB}) ({series}) or sum by ({_JOB}) ({_GPUS}) * 0"


_NUMBERS = (
    stat("GPUs", "Processes that use a GPU.", f"sum({_GPUS})", no_value=NEEDS_RULES),
    stat(
        "Used",
        "Share of GPU time that is neither lost nor idle.",
        f"clamp_min(1 - (sum({_LOST}) + {_NO_IDLE}) / sum({_GPUS}), 0)",
        "percentunit",
        decimals=1,
        no_value=NEEDS_RULES,
    ),
    stat(
        "Lost",
        "Share of GPU time lost because the host was late, over five minutes.",
        _LOST_SHARE,
        "percentunit",
        decimals=1,
        no_value=NEEDS_RULES,
    ),
    stat(
        "Idle",
        "Share of GPUs whose rank made no CUDA call for five minutes.",
        f"{_NO_IDLE} / sum({_GPUS})",
        "percentunit",
        decimals=1,
        no_value=NEEDS_RULES,
    ),
    stat(
        "Loss per hour",
        "In dollars at the present pace, with the prices of rates.toml.",
        f"sum({_DOLLARS})",
        "currencyUSD",
        no_value=NEEDS_RULES,
    ),
    stat(
        "Loss in range",
        "In dollars, over the time range.",
        f"sum_over_time(sum({_DOLLARS})[$__range:1m]) / 60",
        "currencyUSD",
        no_value=NEEDS_RULES,
    ),
)

_LOST_OF_JOB = f"clamp_max(({_of_jobs(_LOST)}) / on ({_JOB}) sum by ({_JOB}) ({_GPUS}), 1)"
LOST_BY_JOB = graph(
    "Lost GPU time, by training job",
    "As a number of GPUs.",
    Query(f"sum by ({_JOB}) ({_LOST})", "{{training_job}}"),
    unit=GPUS,
    is_stacked=True,
    no_value=NEEDS_RULES,
)
_CHAINS = workload_series("gpustall_chain_severity")
WORST_JOBS = table(
    "Training jobs, worst first",
    "All ranks of a training job, over all of its nodes. The name is SLURM's job id, else the run id of torchrun, else the pod,"
    " else the container. The board Cost and capacity has what the loss costs.",
    [
        Query(_LOST_OF_JOB),
        Query(_of_jobs(_LOST)),
        Query(f"sum by ({_JOB}) ({_GPUS})"),
        Query(f"count by ({_JOB}) (count by ({_JOB}, node) ({_GPUS}))"),
        Query(
            f"max by ({_JOB}) ({_CHAINS} * on ({_RANK}) group_left (training_job) {_JOBS})"
            f" or sum by ({_JOB}) ({_GPUS}) * 0"
        ),
    ],
    [
        Column("training_job", "Training job"),
        Column("namespace", "Namespace"),
        Column("cluster", "Cluster"),
        Column("Value #A", "Lost", "percentunit"),
        Column("Value #B", "GPUs lost", GPUS),
        Column("Value #C", "Ranks", "none"),
        Column("Value #D", "Nodes", "none"),
        Column("Value #E", "Worst chain", is_severity=True),
    ],
    sort=("Lost", True),
    height=7,
    no_value=NEEDS_RULES,
)

_CAPACITY = (
    graph(
        "GPUs",
        "GPUs used, lost and idle; the sum is all GPUs.",
        Query(f"clamp_min(sum({_GPUS}) - sum({_LOST}) - {_NO_IDLE}, 0)", "used"),
        Query(f"{_LOST_SHARE} * sum({_GPUS})", "lost"),
        Query(_NO_IDLE, "idle"),
        unit=GPUS,
        is_stacked=True,
        no_value=NEEDS_RULES,
    ),
    LOST_BY_JOB,
    table(
        "Training jobs",
        "The name is SLURM's job id, else the run id of torchrun, else the pod, else the container.",
        [
            Query(f"sum by ({_JOB}) ({_GPUS})"),
            Query(_LOST_OF_JOB),
            Query(f"({_of_jobs(_IDLE)}) / on ({_JOB}) sum by ({_JOB}) ({_GPUS})"),
            Query(
                f"sum by ({_JOB}) (sum without (cause) ({_DOLLARS}) * ignoring (training_job) group_right () {_JOBS})"
            ),
        ],
        [
            Column("namespace", "Namespace"),
            Column("training_job", "Training job"),
            Column("Value #A", "GPUs", "none"),
            Column("Value #B", "Lost", "percentunit"),
            Column("Value #C", "Idle", "percentunit"),
            Column("Value #D", "Loss per hour", "currencyUSD"),
        ],
        sort=("Loss per hour", True),
        height=7,
        no_value=NEEDS_RULES,
    ),
)

_COST = (
    graph(
        "Loss per hour, by cause",
        "In dollars, at the pace of the last five minutes.",
        Query(f"sum by (cause) ({_DOLLARS})", "{{cause}}"),
        unit="currencyUSD",
        is_stacked=True,
        no_value=NEEDS_RULES,
    ),
    graph(
        "Loss per hour, by namespace",
        "In dollars, at the pace of the last five minutes.",
        Query(f"sum by (cluster, namespace) ({_DOLLARS})"),
        unit="currencyUSD",
        is_stacked=True,
        no_value=NEEDS_RULES,
    ),
    bars(
        "Loss in range, by cause",
        "In dollars, over the time range.",
        Query(f"sort_desc(sum_over_time(sum by (cause) ({_DOLLARS})[$__range:1m]) / 60)", "{{cause}}"),
        "currencyUSD",
        no_value=NEEDS_RULES,
    ),
    bars(
        "Loss in range, by node",
        "In dollars, over the time range.",
        Query(f"sort_desc(sum_over_time(sum by (node) ({_DOLLARS})[$__range:1m]) / 60)", "{{node}}"),
        "currencyUSD",
        no_value=NEEDS_RULES,
    ),
)

BOARD = Board(
    "gpustall-cost",
    "GPU stalls / Cost and capacity",
    "How many GPUs are used, lost and idle, and what does the loss cost?",
    (Row("Now", _NUMBERS), Row("Capacity", _CAPACITY), Row("Cost", _COST)),
    since="now-24h",
)
