"""Serving engines, iteration by iteration."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

INFO = Metric(
    "gpustall_engine_info",
    "gpustall.engine.info",
    "",
    Kind.INFO,
    ("engine",),
    "Serving engine or framework of a process, as detected from its command line, process title, parent processes"
    " and libraries; no series if undetected. One series for each workload, for joins, unless its processes differ.",
)
STEP_DURATION = Metric(
    "gpustall_engine_step_duration_seconds",
    "gpustall.engine.step.duration",
    "s",
    Kind.HISTOGRAM,
    ("engine",),
    "Duration of a serving engine's iterations in seconds, prefill and decode alike, from the return of the call"
    " that finds an output copied to the host to the return of the next such call, idle time excluded.",
)
OUTLIER_STEPS = Metric(
    "gpustall_engine_outlier_steps_total",
    "gpustall.engine.outlier_steps",
    "{step}",
    Kind.COUNTER,
    ("engine",),
    "Iterations longer than 3 times the median of the 64 before them, or of at least 16; a prefill among short"
    " decodes counts as well.",
)
MISSED_STEPS = Metric(
    "gpustall_engine_missed_steps_total",
    "gpustall.engine.missed_steps",
    "{step}",
    Kind.COUNTER,
    ("engine",),
    "Iterations that are in no bucket because more than 127 ended within one tick.",
)
IDLE = Metric(
    "gpustall_engine_idle_seconds_total",
    "gpustall.engine.idle",
    "s",
    Kind.COUNTER,
    ("engine",),
    "Seconds in which a serving engine gave the GPU no work, from an output or the last call after it to the next"
    " call of a thread that submits work; counted only if longer than 1 s and longer than 20 median iterations.",
)

METRICS = (
    INFO,
    STEP_DURATION,
    OUTLIER_STEPS,
    MISSED_STEPS,
    IDLE,
)
