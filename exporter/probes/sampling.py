"""Bounds the cost of probes: a process that pays too much has only some of its kernel launches timed.

In: how often the probes of each process were hit, what a call costs here, the time. Out: how often launches of each process are
timed, and metrics of it. Launches are the hot path; those that are probed are all counted, so counters stay exact.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from exporter import catalog
from exporter.config.probes import LaunchMode
from exporter.kernel.calibration import CallCost
from exporter.kernel.thread_rows import FeedingRow
from exporter.totals import Series, Totals
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

SAMPLED_MASK = 63
"""One launch in 64 is timed."""

EVERY_NS = NANOSECONDS
WINDOW_NS = 10 * NANOSECONDS
"""The cost is a mean over this window, and must exceed the limit for as long."""
CALM_NS = 60 * NANOSECONDS
CALM_SHARE = 0.5
"""All launches are timed again when that would have cost less than this share of the limit for CALM_NS."""


class ProbeCost(NamedTuple):
    """Nanoseconds that probes have cost a process so far. in_full_ns: if all its launches had been timed."""

    ns: float
    in_full_ns: float


def spent(row: FeedingRow, cost: CallCost) -> ProbeCost:
    ns = row.timed_calls * cost.timed_ns + row.counted_calls * cost.counted_ns
    return ProbeCost(ns, ns + row.left_out_launches * (cost.timed_ns - cost.counted_ns))


class _Process:
    """Recent probe cost of one process."""

    def __init__(self, *, is_sampled: bool) -> None:
        self.is_sampled = is_sampled
        self.row: FeedingRow | None = None
        self.history: list[tuple[int, ProbeCost]] = []

    def add(self, at: ProbeCost, now_ns: int) -> None:
        history = self.history
        if len(history) > 1 and history[-2][1] == history[-1][1] == at:
            history.pop()  # two entries are enough for an idle time: there are a thousand processes, and most are idle
        history.append((now_ns, at))
        needed_ns = CALM_NS if self.is_sampled else WINDOW_NS
        while now_ns - history[0][0] > needed_ns and now_ns - history[1][0] >= needed_ns:
            del history[0]

    def share(self, *, in_full: bool = False, window_ns: int = WINDOW_NS) -> float:
        """Share of one CPU over the last window_ns, or since the process is known."""
        now_ns, now = self.history[-1]
        first = next(place for place, (at_ns, _) in enumerate(self.history) if now_ns - at_ns <= window_ns)
        then_ns, then = self.history[first]
        if first and self.history[first - 1][1] == then:  # it was idle before
            then_ns = now_ns - window_ns
        if now_ns == then_ns:
            return 0.0
        spent_ns = now.in_full_ns - then.in_full_ns if in_full else now.ns - then.ns
        return max(spent_ns, 0.0) / (now_ns - then_ns)

    def covers(self, window_ns: int) -> bool:
        return self.history[-1][0] - self.history[0][0] >= window_ns


class AdaptiveSampler:
    """Decides for every process. limit: share of one CPU that probes may cost a process. SAMPLED: from its first call."""

    def __init__(self, cost: CallCost, limit: float, launch_mode: LaunchMode) -> None:
        self._cost = cost
        self.limit = limit
        self._samples_all = launch_mode is LaunchMode.SAMPLED
        self._processes: dict[int, _Process] = {}
        self._next_at_ns = 0

    def is_due(self, now_ns: int) -> bool:
        """Whether it is time for update()."""
        return now_ns >= self._next_at_ns

    def update(
        self, feeding: Mapping[int, FeedingRow], now_ns: int, describe: Callable[[int], str] = str
    ) -> dict[int, int]:
        """Update living processes. Returns process -> mask, where the sampling of launches changes. describe: for the log."""
        self._next_at_ns = now_ns + EVERY_NS
        changes: dict[int, int] = {}
        for number, row in feeding.items():
            if number not in self._processes:
                self._processes[number] = _Process(is_sampled=self._samples_all)
                if self._samples_all:
                    changes[number] = SAMPLED_MASK
            process = self._processes[number]
            if row is process.row and not process.is_sampled:
                process.add(process.history[-1][1], now_ns)  # nothing spent since, nothing to decide
                continue
            process.row = row
            process.add(spent(row, self._cost), now_ns)
            if not self._samples_all and self._decide(number, process, describe):
                changes[number] = SAMPLED_MASK if process.is_sampled else 0
        return changes

    def _decide(self, number: int, process: _Process, describe: Callable[[int], str]) -> bool:
        """Whether the sampling of its launches changes."""
        if not process.is_sampled and process.covers(WINDOW_NS) and process.share() > self.limit:
            log.warning(
                "probe overhead of %s is %.1f %% of a CPU: sampling 1 in %d kernel launches",
                describe(number),
                process.share() * 100,
                SAMPLED_MASK + 1,
            )
        elif (
            process.is_sampled
            and process.covers(CALM_NS)
            and (process.share(in_full=True, window_ns=CALM_NS) < CALM_SHARE * self.limit)
        ):
            log.info("probe overhead of %s has dropped: timing every kernel launch again", describe(number))
        else:
            return False
        process.is_sampled = not process.is_sampled
        process.history = process.history[-1:]
        return True

    def forget(self, processes: Iterable[int]) -> None:
        for number in processes:
            self._processes.pop(number, None)

    def spent_ns(self) -> Mapping[int, int]:
        """What probes have cost each process so far, where that is known."""
        return {number: int(one.history[-1][1].ns) for number, one in self._processes.items() if one.history}

    def totals(self) -> Totals:
        """Metrics of every process; shares in billionths."""
        return {
            number: {
                Series(catalog.workload.OVERHEAD, ()): int(process.share() * NANOSECONDS),
                Series(catalog.workload.SAMPLED_PROCESSES, ()): int(process.is_sampled),
            }
            for number, process in self._processes.items()
            if process.history
        }
