"""Captures, instantiations and launches of CUDA graphs.

In: the table `graph_rows` that bpf/lib/graph.bpf.h fills. Out: Totals of each process. Cost: a row for each process with graphs.
"""

from __future__ import annotations

from exporter import catalog
from exporter.kernel.gpu_rows import GraphRow
from exporter.kernel.readings import Reading
from exporter.totals import Series, Total, Totals

_CAPTURED = Series(catalog.graph.CAPTURES, ("captured",))
_FAILED = Series(catalog.graph.CAPTURES, ("failed",))
_OPEN = Series(catalog.graph.OPEN_CAPTURES, ())
_CAPTURE_TIME = Series(catalog.graph.CAPTURE_TIME, ())
_INSTANTIATIONS = Series(catalog.graph.INSTANTIATIONS, ())
_INSTANTIATION_TIME = Series(catalog.graph.INSTANTIATION_TIME, ())
_LAUNCHES = Series(catalog.graph.LAUNCHES, ())
_NEVER_LAUNCHED = Series(catalog.graph.NEVER_LAUNCHED, ())


def collect(reading: Reading) -> Totals:
    """Totals of processes that use graphs."""
    return {process: _of_process(row) for process, row in reading.gpu.graphs.items() if process in reading.processes}


def _of_process(row: GraphRow) -> dict[Series, Total]:
    return {
        _CAPTURED: row.captured,
        _FAILED: row.failed,
        _OPEN: row.open_captures,
        _CAPTURE_TIME: row.capture_ns,
        _INSTANTIATIONS: row.instantiated,
        _INSTANTIATION_TIME: row.instantiate_ns,
        _LAUNCHES: row.launches,
        _NEVER_LAUNCHED: row.never_launched,
    }
