"""Kernels that are launched, and how large they are."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

LAUNCHES = Metric(
    "gpustall_kernel_launches_total",
    "gpustall.kernel.launches",
    "{kernel}",
    Kind.COUNTER,
    ("source",),
    "Kernels given to the GPU, one by one or as part of a launched graph; those that are captured count when the graph is"
    " launched. Kernels of graphs that were not made by a capture are not seen.",
)
SIZES = Metric(
    "gpustall_kernel_launch_sizes_total",
    "gpustall.kernel.launch_sizes",
    "{kernel}",
    Kind.COUNTER,
    ("blocks", "threads"),
    "Kernel launches whose time was taken, by the blocks of the grid and the threads of a block, each up to and including the"
    " value of the label: a grid smaller than the GPU leaves part of it idle.",
)

METRICS = (
    LAUNCHES,
    SIZES,
)
