"""CUDA graphs: captured, made executable, launched."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

CAPTURES = Metric(
    "gpustall_graph_captures_total",
    "gpustall.graph.captures",
    "{capture}",
    Kind.COUNTER,
    ("result",),
    "Captures of a stream into a CUDA graph that ended, by result: captured, or failed to give a graph.",
)
OPEN_CAPTURES = Metric(
    "gpustall_graph_open_captures",
    "gpustall.graph.open_captures",
    "{capture}",
    Kind.GAUGE,
    (),
    "Stream captures that began and did not end; one that stays open was abandoned, and work submitted to its"
    " stream never runs.",
)
CAPTURE_TIME = Metric(
    "gpustall_graph_capture_time_seconds_total",
    "gpustall.graph.capture.time",
    "s",
    Kind.COUNTER,
    (),
    "Seconds of ended stream captures, from the return of cudaStreamBeginCapture() to the return of"
    " cudaStreamEndCapture(); work launched during a capture does not run.",
)
INSTANTIATIONS = Metric(
    "gpustall_graph_instantiations_total",
    "gpustall.graph.instantiations",
    "{graph}",
    Kind.COUNTER,
    (),
    "CUDA graphs made executable; many in a steady job mean that shapes change and graphs are captured again and"
    " again.",
)
INSTANTIATION_TIME = Metric(
    "gpustall_graph_instantiation_time_seconds_total",
    "gpustall.graph.instantiation.time",
    "s",
    Kind.COUNTER,
    (),
    "Host time in seconds of the calls that make a CUDA graph executable, from entry to return.",
)
LAUNCHES = Metric(
    "gpustall_graph_launches_total",
    "gpustall.graph.launches",
    "{launch}",
    Kind.COUNTER,
    (),
    "Launches of executable CUDA graphs that returned without error; launches into another graph are not counted.",
)
NEVER_LAUNCHED = Metric(
    "gpustall_graph_never_launched",
    "gpustall.graph.never_launched",
    "{graph}",
    Kind.GAUGE,
    (),
    "Executable CUDA graphs that exist and were never launched; each takes GPU memory.",
)

METRICS = (
    CAPTURES,
    OPEN_CAPTURES,
    CAPTURE_TIME,
    INSTANTIATIONS,
    INSTANTIATION_TIME,
    LAUNCHES,
    NEVER_LAUNCHED,
)
