"""Kernel rows to cumulative totals of each process, one collector per question; none imports another.

Most take a Reading and return Totals: the list below is the order in which they run. `sched` comes after them; it remembers
the last tick, and so it is an object.
"""

from __future__ import annotations

from collections.abc import Callable

from exporter.collectors import cuda, nccl
from exporter.kernel.rows import Reading
from exporter.totals import Totals

Collect = Callable[[Reading], Totals]

COLLECTORS: dict[str, Collect] = {"cuda": cuda.collect, "nccl": nccl.collect}
