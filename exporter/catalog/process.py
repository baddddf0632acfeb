"""Starts and ends of a workload's processes."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

STARTS = Metric(
    "gpustall_process_starts_total",
    "gpustall.process.starts",
    "{process}",
    Kind.COUNTER,
    (),
    "Processes that made their first traced call.",
)
FORKS = Metric(
    "gpustall_process_forks_total",
    "gpustall.process.forks",
    "{fork}",
    Kind.COUNTER,
    ("kind",),
    "Threads and processes created by the threads of a traced job, workers included.",
)
EXITS = Metric(
    "gpustall_process_exits_total",
    "gpustall.process.exits",
    "{process}",
    Kind.COUNTER,
    ("member", "outcome", "code"),
    "Traced processes and their workers that ended, by exit code or signal; outcome is `oom_killed` where the"
    " kernel killed one because its cgroup or the machine ran out of memory.",
)

METRICS = (
    STARTS,
    FORKS,
    EXITS,
)
