"""Kernel rows to cumulative totals of each process, one collector per question; none imports another.

Most take a Reading and return Totals: the list below is the order in which they run. `sched` comes after them; it remembers
the last tick, and so it is an object. A HostCollector tells of containers, devices and the machine; exporter/hostmetrics makes
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from exporter.collectors import allocator, cuda, graph, launch, memcpy, nccl, process
from exporter.kernel.readings import Reading
from exporter.series.host_totals import TotalsByIdentity, TracedProcess
from exporter.totals import Totals

Collect = Callable[[Reading], Totals]


class HostCollector(Protocol):
    """What a collector of this machine does."""

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """Everything it knows, cumulative. now_ns: CLOCK_MONOTONIC. Called by one thread at a time."""
        ...

    @property
    def resets(self) -> int:
        """Counts of its sources that went back so far."""
        ...


COLLECTORS: dict[str, Collect] = {
    "cuda": cuda.collect,
    "nccl": nccl.collect,
    "process": process.collect,
    "allocator": allocator.collect,
    "graph": graph.collect,
    "launch": launch.collect,
    "memcpy": memcpy.collect,
}
