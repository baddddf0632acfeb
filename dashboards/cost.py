"""What becomes of the GPUs, and what does the rest cost? For whoever pays for them."""

from __future__ import annotations

from dashboards.boards import Board, Row, of_workloads
from dashboards.panels import Column, Query, bars, graph, stat, table

_GPUS = of_workloads("rank:gpustall_gpus:count")
_IDLE = of_workloads("rank:gpustall_gpus_idle:count")
_LOST = of_workloads("rank:gpustall_gpus_lost:rate5m")
_DOLLARS = of_workloads("rank:gpustall_lost:usd_per_hour")
_JOB = "namespace, training_job"
_NO_IDLE = f"(sum({_IDLE}) or sum({_GPUS}) * 0)"
_JOBS = of_workloads("rank:gpustall_training_job:info")


def _of_jobs(series: str) -> str:
    """By job, 0 for one that has none of it."""
    return f"sum by ({_JOB}) ({series}) or sum by ({_JOB}) ({_GPUS}) * 0"


_NUMBERS = (
    stat("GPUs", "Processes that use one.", f"sum({_GPUS})"),
    stat(
        "Used",
        "What is neither lost to the host nor idle.",
        f"clamp_min(1 - (sum({_LOST}) + {_NO_IDLE}) / sum({_GPUS}), 0)",
        "percentunit",
        decimals=1,
    ),
    stat("Lost", "To the host, over five minutes.", f"sum({_LOST}) / sum({_GPUS})", "percentunit", decimals=1),
    stat(
        "Idle",
        "GPUs whose rank has made no CUDA call for five minutes.",
        f"{_NO_IDLE} / sum({_GPUS})",
        "percentunit",
        decimals=1,
    ),
    stat("Lost in an hour", "At the present pace, by the prices of rates.toml.", f"sum({_DOLLARS})", "currencyUSD"),
    stat(
        "Lost so far",
        "In the range of time that is shown.",
        f"sum_over_time(sum({_DOLLARS})[$__range:1m]) / 60",
        "currencyUSD",
    ),
)

_CAPACITY = (
    graph(
        "GPUs",
        "Used, lost to the host, idle; together all of them.",
        Query(f"clamp_min(sum({_GPUS}) - sum({_LOST}) - {_NO_IDLE}, 0)", "used"),
        Query(f"sum({_LOST})", "lost"),
        Query(_NO_IDLE, "idle"),
        is_stacked=True,
    ),
    graph(
        "Lost, by training job",
        "As a number of GPUs.",
        Query(f"sum by ({_JOB}) ({_LOST})"),
        is_stacked=True,
    ),
    table(
        "Training jobs",
        "What a job is called: SLURM's id, else the run id of torchrun, else its pod, else its container.",
        [
            Query(f"sum by ({_JOB}) ({_GPUS})"),
            Query(f"sum by ({_JOB}) ({_LOST}) / on ({_JOB}) sum by ({_JOB}) ({_GPUS})"),
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
            Column("Value #D", "Lost in an hour", "currencyUSD"),
        ],
        sort=("Lost in an hour", True),
        height=7,
    ),
)

_COST = (
    graph(
        "Lost in an hour, by cause",
        "In dollars, at the pace of five minutes.",
        Query(f"sum by (cause) ({_DOLLARS})", "{{cause}}"),
        unit="currencyUSD",
        is_stacked=True,
    ),
    graph(
        "Lost in an hour, by namespace",
        "In dollars.",
        Query(f"sum by (cluster, namespace) ({_DOLLARS})"),
        unit="currencyUSD",
        is_stacked=True,
    ),
    bars(
        "Lost so far, by cause",
        "In the range of time that is shown.",
        Query(f"sort_desc(sum_over_time(sum by (cause) ({_DOLLARS})[$__range:1m]) / 60)", "{{cause}}"),
        "currencyUSD",
    ),
    bars(
        "Lost so far, by node",
        "In the range of time that is shown.",
        Query(f"sort_desc(sum_over_time(sum by (node) ({_DOLLARS})[$__range:1m]) / 60)", "{{node}}"),
        "currencyUSD",
    ),
)

BOARD = Board(
    "gpustall-cost",
    "GPU stalls / Cost and capacity",
    "What becomes of the GPUs, and what does the rest cost?",
    (Row("Now", _NUMBERS), Row("Capacity", _CAPACITY), Row("Cost", _COST)),
    since="now-24h",
)
