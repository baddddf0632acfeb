"""How much memory does the kernel allocate for a traced process? Told by the collector `memory`, and only when it is asked for.

In: a Reading of the table that bpf/pages.bpf.c fills. Out: Totals of each process, in bytes.
"""

from __future__ import annotations

from mmap import PAGESIZE

from exporter import catalog
from exporter.kernel.rows import Reading
from exporter.totals import Series, Totals

_ALLOCATED = Series(catalog.MEMORY_PAGE_ALLOCATED, ())


def collect(reading: Reading) -> Totals:
    """Of every process that had a page allocated."""
    return {process: {_ALLOCATED: pages * PAGESIZE} for process, pages in reading.page_allocations.items()}
