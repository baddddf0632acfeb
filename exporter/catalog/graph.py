"""CUDA graphs: captured, made executable, launched."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

CAPTURES = Metric(
    "gpustall_graph_captures_total",
    "gpustall.graph.captures",
    "{capture}",
    Kind.COUNTER,
    ("result",),
    "Captures of a stream into a CUDA graph that have ended, with a graph or without.",
)
OPEN_CAPTURES = Metric(
    "gpustall_graph_open_captures",
    "gpustall.graph.open_captures",
    "{capture}",
    Kind.GAUGE,
    (),
    "Captures that have begun and not ended: one that stays was abandoned, and what its stream is given is never done.",
)
CAPTURE_TIME = Metric(
    "gpustall_graph_capture_time_seconds_total",
    "gpustall.graph.capture.time",
    "s",
    Kind.COUNTER,
    (),
    "From the return of cudaStreamBeginCapture() to that of cudaStreamEndCapture(), of captures that have ended: what is"
    " launched meanwhile is not done.",
)
INSTANTIATIONS = Metric(
    "gpustall_graph_instantiations_total",
    "gpustall.graph.instantiations",
    "{graph}",
    Kind.COUNTER,
    (),
    "Graphs made executable; many in a steady job mean that shapes change and it captures again and again.",
)
INSTANTIATION_TIME = Metric(
    "gpustall_graph_instantiation_time_seconds_total",
    "gpustall.graph.instantiation.time",
    "s",
    Kind.COUNTER,
    (),
    "Host time from entry into to return from the calls that make a graph executable.",
)
LAUNCHES = Metric(
    "gpustall_graph_launches_total",
    "gpustall.graph.launches",
    "{launch}",
    Kind.COUNTER,
    (),
    "Launches of executable graphs that returned without error; those into another graph are not counted.",
)
NEVER_LAUNCHED = Metric(
    "gpustall_graph_never_launched",
    "gpustall.graph.never_launched",
    "{graph}",
    Kind.GAUGE,
    (),
    "Executable graphs that exist and have not been launched yet: each takes memory of the GPU.",
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
