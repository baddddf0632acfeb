"""What a dashboard of the host shows, once a second: the input of rules that go by co-occurrence."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from exporter.kernel.operations import OPERATIONS
from exporter.kernel.tables import Tables
from exporter.totals import Counts

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
GAUGE_SECONDS = 1.0


class Gauge(NamedTuple):
    """Values at one moment; counters since boot.

    busy_seconds, cpu_seconds: of all CPUs. block_operations, block_seconds: of all disks. switches: of the job's threads
    that are alive.
    calls: by operation, first slot and counts of its histogram.
    """

    now_ns: int
    busy_seconds: float
    cpu_seconds: float
    memory_share: float
    swap_bytes: int
    load1: float
    block_operations: int
    block_seconds: float
    switches: int
    calls: Mapping[str, tuple[int, Sequence[int]]]

    def counts(self, operation: str) -> Counts:
        """Histogram of an operation."""
        begin, held = self.calls.get(operation, (0, ()))
        return Counts(begin, tuple(held))


def read(tables: Tables, now_ns: int) -> Gauge:
    """Values of this machine and of the processes in the tables."""
    calls: dict[str, Counts] = {}
    for key, row in tables.read().operations.items():
        name = OPERATIONS[key.operation].name
        calls[name] = calls.get(name, Counts()).plus(row.slots)
    switches = sum(row.voluntary + row.involuntary for row in tables.read_threads())
    busy, all_cpus = _cpu_seconds((_PROC / "stat").read_text())
    memory_share, swap_bytes = _memory((_PROC / "meminfo").read_text())
    operations, block_seconds = _disks((_PROC / "diskstats").read_text())
    return Gauge(
        now_ns,
        busy,
        all_cpus,
        memory_share,
        swap_bytes,
        os.getloadavg()[0],
        operations,
        block_seconds,
        switches,
        {name: (counts.begin, counts.held) for name, counts in calls.items()},
    )


@contextmanager
def gauging(tables: Tables) -> Iterator[list[Gauge]]:
    """Values of each second of the block."""
    gauges: list[Gauge] = []
    stopping = threading.Event()

    def gauge() -> None:
        while not stopping.wait(GAUGE_SECONDS):
            gauges.append(read(tables, time.monotonic_ns()))

    thread = threading.Thread(target=gauge, name="gauges", daemon=True)
    thread.start()
    try:
        yield gauges
    finally:
        stopping.set()
        thread.join()


def _cpu_seconds(text: str) -> tuple[float, float]:
    """Busy, and all: the line of all CPUs, user nice system idle iowait irq softirq steal."""
    times = [int(word) / _TICKS for word in text.splitlines()[0].split()[1:9]]
    return sum(times) - times[3] - times[4], sum(times)


def _memory(text: str) -> tuple[float, int]:
    """Used share of the memory, used bytes of the swap."""
    values = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in text.splitlines())}
    return 1 - values["MemAvailable"] / values["MemTotal"], values["SwapTotal"] - values["SwapFree"]


def _disks(text: str) -> tuple[int, float]:
    """Operations and time, of reads and writes."""
    operations, milliseconds = 0, 0
    for words in map(str.split, text.splitlines()):
        operations += int(words[3]) + int(words[7])
        milliseconds += int(words[6]) + int(words[10])
    return operations, milliseconds / 1000
