"""CPU time that a container cannot use for other reasons than processes: quota, hypervisor, interrupts."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

QUOTA_PERIODS = Metric(
    "gpustall_cpu_quota_periods_total",
    "gpustall.cpu.quota.periods",
    "{period}",
    Kind.COUNTER,
    (),
    "Periods in which a CPU quota was enforced, summed over the cgroups of the container's traced processes and"
    " those of their ancestors that have a quota.",
)
QUOTA_THROTTLED_PERIODS = Metric(
    "gpustall_cpu_quota_throttled_periods_total",
    "gpustall.cpu.quota.throttled_periods",
    "{period}",
    Kind.COUNTER,
    (),
    "Periods of gpustall_cpu_quota_periods_total in which the quota was used up and tasks were throttled, summed"
    " over the same cgroups.",
)
QUOTA_THROTTLED = Metric(
    "gpustall_cpu_quota_throttled_seconds_total",
    "gpustall.cpu.quota.throttled",
    "s",
    Kind.COUNTER,
    (),
    "Seconds of throttling by a CPU quota, from when a CPU finds the quota used up until it may run the cgroup"
    " again, summed over CPUs and the cgroups of gpustall_cpu_quota_periods_total.",
)
STEAL = Metric(
    "gpustall_cpu_steal_seconds_total",
    "gpustall.cpu.steal",
    "s",
    Kind.COUNTER,
    (),
    "CPU time in seconds taken by the hypervisor (steal) while this machine had work to run, summed over CPUs since"
    " boot, as /proc/stat counts it.",
)
IRQ = Metric(
    "gpustall_cpu_irq_seconds_total",
    "gpustall.cpu.irq",
    "s",
    Kind.COUNTER,
    (),
    "CPU time in seconds of hard interrupts, from entry to end, summed over CPUs since boot, as /proc/stat counts"
    " it; almost nothing on kernels that only sample it.",
)
SOFTIRQ = Metric(
    "gpustall_cpu_softirq_seconds_total",
    "gpustall.cpu.softirq",
    "s",
    Kind.COUNTER,
    (),
    "CPU time in seconds of soft interrupts, from entry to end, summed over CPUs since boot, as /proc/stat counts"
    " it; sampled on most kernels.",
)

METRICS = (
    QUOTA_PERIODS,
    QUOTA_THROTTLED_PERIODS,
    QUOTA_THROTTLED,
    STEAL,
    IRQ,
    SOFTIRQ,
)
