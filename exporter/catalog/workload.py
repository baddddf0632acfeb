"""Who a workload is, and what being probed costs it: of no collector, there whenever a process is."""

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
    "Traced processes alive, with everything else one may join on; pid is the process id (tgid) as the exporter sees it.",
)
OVERHEAD = Metric(
    "gpustall_exporter_overhead_ratio",
    "gpustall.exporter.overhead",
    "1",
    Kind.GAUGE,
    (),
    "What the probes cost the traced processes: seconds of CPU time per second over the last ten, from their calls and from what"
    " a call was measured to cost when the exporter started; without the scheduler programs.",
)
SAMPLED_PROCESSES = Metric(
    "gpustall_exporter_sampled_processes",
    "gpustall.exporter.sampled_processes",
    "{process}",
    Kind.GAUGE,
    (),
    "Processes of which only one kernel launch in 64 is timed, because more would cost them too much or it was asked for; all"
    " launches are counted.",
)

COST_METRICS = (OVERHEAD, SAMPLED_PROCESSES)
"""What the exporter does to each workload: about the exporter, and labelled like the workload."""
