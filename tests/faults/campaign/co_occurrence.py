"""Rules of co-occurrence: an operation has a long tail, and a resource of the host was busy at about the same time.

Rules and thresholds are published ones of tools that work so, for a comparison over the same episodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exporter.totals import Counts
from exporter.units import NANOSECONDS
from tests.faults.campaign.gauges import Gauge

WINDOW_NS = 10 * NANOSECONDS
TAIL_CALLS, TAIL_RATIO = 10, 3.0
CPU_SHARE, MEMORY_SHARE, LOAD = 0.9, 0.95, 10.0
SWITCHES = 5
BLOCK_OPERATIONS, BLOCK_SECONDS = 200, 1.0
DROP_SNAPSHOTS, DROP_PEAK, DROP_CURRENT, DROP_RATIO = 5, 10.0, 1.0, 0.6
DROP_BLOCK_OPERATIONS = 50


class Alarm(NamedTuple):
    """One rule that holds at a moment. causes: all that is busy, in the words of our chains."""

    now_ns: int
    rule: str
    causes: tuple[str, ...]


def alarms(gauges: Sequence[Gauge]) -> Iterator[Alarm]:
    """Once for each moment at which a rule holds."""
    peaks: dict[str, float] = {}
    for number, now in enumerate(gauges):
        then = next(gauge for gauge in gauges if gauge.now_ns >= now.now_ns - WINDOW_NS)
        if then is now:
            continue
        causes = _busy(then, now)
        for operation in now.calls:
            counts = now.counts(operation).minus(then.counts(operation))
            if counts.total >= TAIL_CALLS and _has_tail(counts) and causes:
                yield Alarm(now.now_ns, f"tail-{operation}", causes)
                continue
            before = gauges[number - 1]
            seconds = (now.now_ns - before.now_ns) / NANOSECONDS
            rate = now.counts(operation).minus(before.counts(operation)).total / seconds
            peaks[operation] = max(peaks.get(operation, 0.0), rate)
            is_drop = peaks[operation] >= DROP_PEAK and rate >= DROP_CURRENT and rate < DROP_RATIO * peaks[operation]
            if number >= DROP_SNAPSHOTS and is_drop and (causes := _evidence(then, now)):
                yield Alarm(now.now_ns, f"drop-{operation}", causes)


def _has_tail(counts: Counts) -> bool:
    """Slots are an eighth of an octave wide."""
    median, tail = _slot(counts, 0.5), _slot(counts, 0.99)
    return float(2 ** ((tail - median) / 8)) >= TAIL_RATIO


def _slot(counts: Counts, quantile: float) -> int:
    wanted, seen = quantile * counts.total, 0
    for slot, count in enumerate(counts.held, counts.begin):
        seen += count
        if seen >= wanted:
            return slot
    return counts.begin + len(counts.held)


def _busy(then: Gauge, now: Gauge) -> tuple[str, ...]:
    cpu_seconds = now.cpu_seconds - then.cpu_seconds
    found = []
    if cpu_seconds and (now.busy_seconds - then.busy_seconds) / cpu_seconds > CPU_SHARE:
        found.append("cpu_contention")
    if now.memory_share > MEMORY_SHARE or now.swap_bytes > 0:
        found.append("memory_reclaim")
    if (now.load1 > LOAD or now.switches - then.switches >= SWITCHES) and "cpu_contention" not in found:
        found.append("cpu_contention")
    operations, seconds = now.block_operations - then.block_operations, now.block_seconds - then.block_seconds
    if operations >= BLOCK_OPERATIONS or seconds >= BLOCK_SECONDS:
        found.append("block_io")
    return tuple(found)


def _evidence(then: Gauge, now: Gauge) -> tuple[str, ...]:
    found = []
    if now.switches - then.switches >= SWITCHES:
        found.append("cpu_contention")
    if now.block_operations - then.block_operations >= DROP_BLOCK_OPERATIONS:
        found.append("block_io")
    return tuple(found)
