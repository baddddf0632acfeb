"""Serving engines, iteration by iteration."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

INFO = Metric(
    "gpustall_engine_info",
    "gpustall.engine.info",
    "",
    Kind.INFO,
    ("engine",),
    "The serving engine or framework of a process, as its command line, its title, those that started it and its libraries say;"
    " no series where they say nothing. A workload has one, to join others with, unless its processes differ.",
)
STEP_DURATION = Metric(
    "gpustall_engine_step_duration_seconds",
    "gpustall.engine.step.duration",
    "s",
    Kind.HISTOGRAM,
    ("engine",),
    "Time of a serving engine's iterations, prefill and decode alike, from the return of the call that finds an output copied to"
    " the host to that of the next one, without idleness in between; engines that serve alone.",
)
OUTLIER_STEPS = Metric(
    "gpustall_engine_outlier_steps_total",
    "gpustall.engine.outlier_steps",
    "{step}",
    Kind.COUNTER,
    ("engine",),
    "Iterations that took more than 3 times the median of the 64 before them, of at least 16; a prefill among short decodes is"
    " one as well.",
)
MISSED_STEPS = Metric(
    "gpustall_engine_missed_steps_total",
    "gpustall.engine.missed_steps",
    "{step}",
    Kind.COUNTER,
    ("engine",),
    "Iterations that are in no bucket: more than 127 ended within a tick.",
)
IDLE = Metric(
    "gpustall_engine_idle_seconds_total",
    "gpustall.engine.idle",
    "s",
    Kind.COUNTER,
    ("engine",),
    "Time in which a serving engine gave the GPU nothing to do, from an output, or the last call after it, to the next call of a"
    " thread that gives work; only where it is longer than 1 s and than 20 medians of an iteration.",
)

METRICS = (
    INFO,
    STEP_DURATION,
    OUTLIER_STEPS,
    MISSED_STEPS,
    IDLE,
)
