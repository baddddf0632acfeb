"""Kernel rows to cumulative totals of each process, one collector per question; none imports another.

Most take a Reading and return Totals: COLLECTORS lists them in the order in which they run. `sched` and `engine` keep state from
one tick to the next, and so they are objects. Collectors of containers and of the node are in exporter/hostmetrics.
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.collectors import allocator, cuda, graph, launch, memcpy, nccl, process
from exporter.kernel.readings import Reading
from exporter.totals import Totals

Collect = Callable[[Reading], Totals]

COLLECTORS: dict[str, Collect] = {
    "cuda": cuda.collect,
    "nccl": nccl.collect,
    "process": process.collect,
    "allocator": allocator.collect,
    "graph": graph.collect,
    "launch": launch.collect,
    "memcpy": memcpy.collect,
}
