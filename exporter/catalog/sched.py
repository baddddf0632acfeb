"""Time of traced threads, and the GPU time lost."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

THREAD_TIME = Metric(
    "gpustall_thread_time_seconds_total",
    "gpustall.thread.time",
    "s",
    Kind.COUNTER,
    ("operation", "state"),
    "Seconds of traced threads since their first traced call, by the outermost call they were in or the gap between"
    " two calls, and by thread state; in a synchronising call gpu_wait includes spinning and polling for the GPU.",
)
LOST = Metric(
    "gpustall_lost_seconds_total",
    "gpustall.lost",
    "s",
    Kind.COUNTER,
    ("cause",),
    "GPU time lost because the host was late, in seconds, by cause: time in which no thread that feeds the GPU was"
    " running or waiting for the GPU, less the part during which the GPU still had work, plus the delay from the end"
    " of that work to the return of the call waiting for it.",
)
MAX_CULPRITS = 64
"""Values of the label `culprit` with a series at a time, for one workload."""

CULPRIT = Metric(
    "gpustall_culprit_seconds_total",
    "gpustall.culprit",
    "s",
    Kind.COUNTER,
    ("cause", "culprit"),
    "Lost time of gpustall_lost_seconds_total in seconds, by cause and by culprit, such as the program that held the CPU or the"
    " lock or kept the disk busy; culprit is empty where a cause has none; of more than"
    f" {MAX_CULPRITS} culprits the one with the smallest total becomes part of other.",
)
INTERRUPTED = Metric(
    "gpustall_interrupted_seconds_total",
    "gpustall.interrupted",
    "s",
    Kind.COUNTER,
    (),
    "Seconds of interrupts, soft ones included, from entry to end, on a CPU that a thread of the process or of its"
    " workers ran on or waited for; the part that delayed the GPU is lost time of cause irq.",
)
WAIT_CHAIN = Metric(
    "gpustall_wait_chain_seconds_total",
    "gpustall.wait_chain",
    "s",
    Kind.COUNTER,
    ("blocked_on", "state"),
    "Seconds that step threads slept between two calls until a worker, or a thread of the job that is not a step"
    " thread, woke them, by what they slept on and by what the waking thread did during the sleep.",
)
STEP_DURATION = Metric(
    "gpustall_step_duration_seconds",
    "gpustall.step.duration",
    "s",
    Kind.HISTOGRAM,
    (),
    "Duration of training steps in seconds, from the return of a collective or copy to the device to the return of"
    " the same call one step later; a step is the shortest period in which these calls recur, and without one there"
    " is no data.",
)

METRICS = (
    THREAD_TIME,
    LOST,
    CULPRIT,
    INTERRUPTED,
    WAIT_CHAIN,
    STEP_DURATION,
)
