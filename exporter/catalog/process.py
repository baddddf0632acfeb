"""How processes of a workload begin and end."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

STARTS = Metric(
    "gpustall_process_starts_total",
    "gpustall.process.starts",
    "{process}",
    Kind.COUNTER,
    (),
    "Processes that have made their first traced call.",
)
FORKS = Metric(
    "gpustall_process_forks_total",
    "gpustall.process.forks",
    "{fork}",
    Kind.COUNTER,
    ("kind",),
    "Threads and processes that the threads of a traced job, its workers included, have made.",
)
EXITS = Metric(
    "gpustall_process_exits_total",
    "gpustall.process.exits",
    "{process}",
    Kind.COUNTER,
    ("member", "outcome", "code"),
    "Traced processes and their workers that have ended, by exit code or signal; `oom_killed` where the kernel ended one because"
    " its control group or the machine had no memory left.",
)

METRICS = (
    STARTS,
    FORKS,
    EXITS,
)
