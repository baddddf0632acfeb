"""Host memory of the containers that workloads run in."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

RECLAIM_DURATION = Metric(
    "gpustall_memory_reclaim_duration_seconds",
    "gpustall.memory.reclaim.duration",
    "s",
    Kind.HISTOGRAM,
    (),
    "Duration of direct reclaim in seconds, by container, from when a task that needs memory starts to free some,"
    " because none is free, until it has done so; of every task on the machine, traced or not.",
)
RECLAIMED = Metric(
    "gpustall_memory_reclaimed_bytes_total",
    "gpustall.memory.reclaimed",
    "By",
    Kind.COUNTER,
    (),
    "Bytes of memory freed by tasks of the container in direct reclaim, because they needed memory and none was free.",
)
OOM_KILLS = Metric(
    "gpustall_memory_oom_kills_total",
    "gpustall.memory.oom_kills",
    "{kill}",
    Kind.COUNTER,
    (),
    "Processes of the container killed by the kernel because memory ran out, counted when they have exited.",
)
MAJOR_FAULTS = Metric(
    "gpustall_memory_major_faults_total",
    "gpustall.memory.major_faults",
    "{fault}",
    Kind.COUNTER,
    (),
    "Page faults that had to read a page from storage, by all processes in the cgroups of traced processes.",
)
SWAP = Metric(
    "gpustall_memory_swap_bytes",
    "gpustall.memory.swap",
    "By",
    Kind.GAUGE,
    (),
    "Bytes of traced processes' memory that are swapped out, without shared memory; absent on a machine without swap.",
)
USED = Metric(
    "gpustall_memory_used_bytes",
    "gpustall.memory.used",
    "By",
    Kind.GAUGE,
    (),
    "Bytes of memory used by the cgroups of traced processes, page cache included; absent for the root cgroup.",
)
LIMIT = Metric(
    "gpustall_memory_limit_bytes",
    "gpustall.memory.limit",
    "By",
    Kind.GAUGE,
    (),
    "Memory limit in bytes of the cgroups of traced processes: the smallest limit of a cgroup and its ancestors;"
    " absent if there is none.",
)
PAGE_ALLOCATED = Metric(
    "gpustall_memory_page_allocated_bytes_total",
    "gpustall.memory.page_allocated",
    "By",
    Kind.COUNTER,
    (),
    "Bytes of pages that the kernel allocated while threads of the process and of its descendants ran, page cache"
    " and kernel tables included; only with --collector.memory.page-allocations.",
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
