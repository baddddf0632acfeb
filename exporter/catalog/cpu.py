"""What keeps a container from the CPUs beside other processes: its quota, the hypervisor, interrupts."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

QUOTA_PERIODS = Metric(
    "gpustall_cpu_quota_periods_total",
    "gpustall.cpu.quota.periods",
    "{period}",
    Kind.COUNTER,
    (),
    "Periods in which the CPU quota of the container was enforced: the sum over the control groups of its traced processes and"
    " those above them that have a quota.",
)
QUOTA_THROTTLED_PERIODS = Metric(
    "gpustall_cpu_quota_throttled_periods_total",
    "gpustall.cpu.quota.throttled_periods",
    "{period}",
    Kind.COUNTER,
    (),
    "Of those periods the ones in which the quota was used up and somebody had to wait: the sum over the same control groups.",
)
QUOTA_THROTTLED = Metric(
    "gpustall_cpu_quota_throttled_seconds_total",
    "gpustall.cpu.quota.throttled",
    "s",
    Kind.COUNTER,
    (),
    "Time from where a CPU of such a control group finds the quota used up to where it may run the group again, added up over"
    " CPUs and control groups.",
)
STEAL = Metric(
    "gpustall_cpu_steal_seconds_total",
    "gpustall.cpu.steal",
    "s",
    Kind.COUNTER,
    (),
    "Time that the hypervisor gave this machine's CPUs to others while they had something to do, added up over CPUs since the"
    " machine was started, as /proc/stat counts it.",
)
IRQ = Metric(
    "gpustall_cpu_irq_seconds_total",
    "gpustall.cpu.irq",
    "s",
    Kind.COUNTER,
    (),
    "Time from the entry of hard interrupts to their end, added up over CPUs since the machine was started, as /proc/stat counts"
    " it: next to nothing on kernels that only sample it.",
)
SOFTIRQ = Metric(
    "gpustall_cpu_softirq_seconds_total",
    "gpustall.cpu.softirq",
    "s",
    Kind.COUNTER,
    (),
    "Time from the entry of soft interrupts to their end, added up over CPUs since the machine was started, as /proc/stat counts"
    " it: by samples on most kernels.",
)

METRICS = (
    QUOTA_PERIODS,
    QUOTA_THROTTLED_PERIODS,
    QUOTA_THROTTLED,
    STEAL,
    IRQ,
    SOFTIRQ,
)
