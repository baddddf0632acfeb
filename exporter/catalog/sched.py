"""Where the time of traced threads goes, and what of it the GPU lost."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

THREAD_TIME = Metric(
    "gpustall_thread_time_seconds_total",
    "gpustall.thread.time",
    "s",
    Kind.COUNTER,
    ("operation", "state"),
    "Time of traced threads from their first traced call until now, by the outermost call they were in or the gap between two"
    " calls, and by what they did; in a synchronising call gpu_wait includes spinning and polling for the GPU.",
)
LOST = Metric(
    "gpustall_lost_seconds_total",
    "gpustall.lost",
    "s",
    Kind.COUNTER,
    ("cause",),
    "Time the host made the GPU wait, by cause: from the last step thread's stop until one runs again, without what the GPU's"
    " own work hid, and from the end of that work to the return of the call that waited for it.",
)
CULPRIT = Metric(
    "gpustall_culprit_seconds_total",
    "gpustall.culprit",
    "s",
    Kind.COUNTER,
    ("cause", "culprit"),
    "The same time as gpustall_lost_seconds_total, also by the program that held the CPU; the culprit is empty where a cause"
    " has none.",
)
INTERRUPTED = Metric(
    "gpustall_interrupted_seconds_total",
    "gpustall.interrupted",
    "s",
    Kind.COUNTER,
    (),
    "Time from the entry of interrupts, soft ones included, to their end on a CPU that a thread of the process or of its workers"
    " ran on or waited for; what of it the GPU had to wait for is lost time of the cause irq.",
)
WAIT_CHAIN = Metric(
    "gpustall_wait_chain_seconds_total",
    "gpustall.wait_chain",
    "s",
    Kind.COUNTER,
    ("blocked_on", "state"),
    "Time step threads slept between two calls until a worker or another thread of the job that is no step thread woke them,"
    " by what they slept on and by what that one did from the beginning of the sleep to its end.",
)
STEP_DURATION = Metric(
    "gpustall_step_duration_seconds",
    "gpustall.step.duration",
    "s",
    Kind.HISTOGRAM,
    (),
    "Time from one training step to the next, found by the shortest period in which a process's collectives and copies to the"
    " device recur, from the return of one such call to that of its like a step later; nothing while there is no such rhythm.",
)

METRICS = (
    THREAD_TIME,
    LOST,
    CULPRIT,
    INTERRUPTED,
    WAIT_CHAIN,
    STEP_DURATION,
)
