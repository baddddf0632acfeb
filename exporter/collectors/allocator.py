"""GPU memory that a process has allocated, and host memory that it has pinned.

In: the rows of processes that bpf/cuda.bpf.c fills. Out: Totals of each process. Cost: no row of its own.
"""

from __future__ import annotations

from exporter import catalog
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.readings import Reading
from exporter.totals import Series, Total, Totals

_LIVE = Series(catalog.allocator.LIVE, ())
_PEAK = Series(catalog.allocator.PEAK, ())
_MANAGED = Series(catalog.allocator.MANAGED, ())
_PINNED = Series(catalog.allocator.PINNED, ())
_ALLOCATIONS = Series(catalog.allocator.ALLOCATIONS, ())
_ALLOCATED = Series(catalog.allocator.ALLOCATED, ())
_FREED = Series(catalog.allocator.FREED, ())
_UNKNOWN_FREES = Series(catalog.allocator.UNKNOWN_FREES, ())


def collect(reading: Reading) -> Totals:
    return {process: _of_process(row) for process, row in reading.processes.items()}


def _of_process(row: ProcessRow) -> dict[Series, Total]:
    """No series before the process first allocates or pins."""
    series: dict[Series, Total] = {}
    if row.allocated_bytes:
        series |= {
            _LIVE: max(row.allocated_bytes - row.freed_bytes, 0),  # the two are not read at one moment
            _PEAK: row.peak_bytes,
            _MANAGED: row.managed_bytes,
            _ALLOCATED: row.allocated_bytes,
            _FREED: row.freed_bytes,
        }
    if row.allocated_bytes or row.pinned_bytes:
        series |= {_ALLOCATIONS: row.live_allocations, _PINNED: row.pinned_bytes}
    if row.unknown_frees:
        series[_UNKNOWN_FREES] = row.unknown_frees
    return series
