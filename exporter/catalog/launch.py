"""Kernels that are launched, and how large they are."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

LAUNCHES = Metric(
    "gpustall_kernel_launches_total",
    "gpustall.kernel.launches",
    "{kernel}",
    Kind.COUNTER,
    ("source",),
    "Kernels submitted to the GPU, one by one or as part of a launched graph; captured kernels count when the graph"
    " is launched. Kernels of graphs that were not made by a capture are not counted.",
)
SIZES = Metric(
    "gpustall_kernel_launch_sizes_total",
    "gpustall.kernel.launch_sizes",
    "{kernel}",
    Kind.COUNTER,
    ("blocks", "threads"),
    "Timed kernel launches by blocks in the grid and threads in a block, each up to and including the label's"
    " value; a grid smaller than the GPU leaves part of it idle.",
)

METRICS = (
    LAUNCHES,
    SIZES,
)
