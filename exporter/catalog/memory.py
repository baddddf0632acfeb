"""Host memory of the containers that workloads run in."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

RECLAIM_DURATION = Metric(
    "gpustall_memory_reclaim_duration_seconds",
    "gpustall.memory.reclaim.duration",
    "s",
    Kind.HISTOGRAM,
    (),
    "Time from where a task of the container begins to free memory itself, because it wants some and none is free, to where it"
    " has done so; of every task of the machine, traced or not.",
)
RECLAIMED = Metric(
    "gpustall_memory_reclaimed_bytes_total",
    "gpustall.memory.reclaimed",
    "By",
    Kind.COUNTER,
    (),
    "Memory that tasks of the container freed themselves because they wanted some and none was free.",
)
OOM_KILLS = Metric(
    "gpustall_memory_oom_kills_total",
    "gpustall.memory.oom_kills",
    "{kill}",
    Kind.COUNTER,
    (),
    "Processes of the container that the kernel ended because memory had run out, counted when they are gone.",
)
MAJOR_FAULTS = Metric(
    "gpustall_memory_major_faults_total",
    "gpustall.memory.major_faults",
    "{fault}",
    Kind.COUNTER,
    (),
    "Page faults for which a page had to be read, by all processes in the control groups of traced ones.",
)
SWAP = Metric(
    "gpustall_memory_swap_bytes",
    "gpustall.memory.swap",
    "By",
    Kind.GAUGE,
    (),
    "Memory of the traced processes that has been swapped out, without shared memory; absent on a machine without swap.",
)
USED = Metric(
    "gpustall_memory_used_bytes",
    "gpustall.memory.used",
    "By",
    Kind.GAUGE,
    (),
    "Memory that the control groups of traced processes have now, page cache included; absent for the root group.",
)
LIMIT = Metric(
    "gpustall_memory_limit_bytes",
    "gpustall.memory.limit",
    "By",
    Kind.GAUGE,
    (),
    "Memory that those control groups may have: the smallest limit of a group and those above it; absent where there is none.",
)
PAGE_ALLOCATED = Metric(
    "gpustall_memory_page_allocated_bytes_total",
    "gpustall.memory.page_allocated",
    "By",
    Kind.COUNTER,
    (),
    "Pages that the kernel allocated while threads of the process and of those forked from it ran, page cache and its own tables"
    " included; only with --collector.memory.page-allocations.",
)

METRICS = (
    RECLAIM_DURATION,
    RECLAIMED,
    OOM_KILLS,
    MAJOR_FAULTS,
    SWAP,
    USED,
    LIMIT,
    PAGE_ALLOCATED,
)
