"""Identity of a workload, and the overhead of its probes: independent of collectors."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

INFO = Metric(
    "gpustall_workload_info",
    "gpustall.workload.info",
    "",
    Kind.INFO,
    (
        "pid",
        "comm",
        "local_rank",
        "world_size",
        "run_id",
        "slurm_job_id",
        "slurm_job_name",
        "slurm_partition",
        "slurm_account",
        "pod_uid",
        "container_id",
        "container_runtime",
        "unit",
    ),
    "Live traced processes, with further labels to join on; pid is the process id (tgid) as the exporter sees it.",
)
OVERHEAD = Metric(
    "gpustall_exporter_overhead_ratio",
    "gpustall.exporter.overhead",
    "1",
    Kind.GAUGE,
    (),
    "Overhead of the probes in traced processes, in CPU seconds per second over the last 10 s: their calls times"
    " the cost of a call measured when the exporter started; scheduler programs are not included.",
)
SAMPLED_PROCESSES = Metric(
    "gpustall_exporter_sampled_processes",
    "gpustall.exporter.sampled_processes",
    "{process}",
    Kind.GAUGE,
    (),
    "Processes of which 1 in 64 kernel launches is timed, because timing all would cost too much or sampling was"
    " requested; all launches are counted.",
)

COST_METRICS = (OVERHEAD, SAMPLED_PROCESSES)
"""Overhead of each workload: about the exporter, with the labels of the workload."""
