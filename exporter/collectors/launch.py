"""How many kernels a process launches, directly or in graphs, and how large they are.

In: feeding timelines, tables `graph_rows` and `geometries` that bpf/cuda.bpf.c fills. Out: Totals of each process. Cost: a row
of each of the three for a process.
"""

from __future__ import annotations

from exporter import catalog
from exporter.kernel.gpu_rows import BLOCK_LIMITS, GRID_LIMITS
from exporter.kernel.readings import Reading
from exporter.totals import Series, Totals

_DIRECT = Series(catalog.launch.LAUNCHES, ("direct",))
_BY_GRAPH = Series(catalog.launch.LAUNCHES, ("graph",))
_NO_LIMIT = "+Inf"
_SIZES = tuple(
    Series(catalog.launch.SIZES, (blocks, threads))
    for blocks in (*map(str, GRID_LIMITS), _NO_LIMIT)
    for threads in (*map(str, BLOCK_LIMITS), _NO_LIMIT)
)
"""In the order of a row of geometries."""


def collect(reading: Reading) -> Totals:
    """No series before the process first launches that way."""
    totals: Totals = {process: {} for process in reading.processes}
    for process, of_process in totals.items():
        kernels, graphs = reading.gpu.kernels.get(process, 0), reading.gpu.graphs.get(process)
        if kernels:
            of_process[_DIRECT] = kernels
        if graphs and graphs.launches:
            of_process[_BY_GRAPH] = graphs.kernels
        for series, launches in zip(_SIZES, reading.gpu.geometries.get(process, ()), strict=False):
            if launches:
                of_process[series] = launches
    return totals
