"""What each process did in a time span: windows in, a ProcessSum for each process out.

Only sums and the last few windows are kept, since a day of windows takes much memory.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from exporter.explain.site_sums import SiteSums
from exporter.history.run import RecordedWindows
from exporter.history.selection import Selection
from exporter.history.window import NO_STEPS, OperationTime, ProcessLabels, Window
from exporter.totals import HistogramTotal
from exporter.units import NANOSECONDS

STOLEN_STATES = ("runnable", "throttled")
"""Ready to run, but not on a CPU."""

ON_CPU_STATES = ("on_cpu", "reclaim")
WAITING_FOR_GPU = "gpu_wait"

RATIO_MIN = 1.1
"""A step or a call that takes less than so many times as long, or as short, is as long as before."""

LATEST = 3


@dataclass(slots=True)
class ProcessSum:
    """covered_ns: total length of its windows. latest: the last of them, oldest first."""

    run: int
    number: int
    labels: ProcessLabels
    began_unix_ns: int
    ended_unix_ns: int = 0
    covered_ns: int = 0
    steps: HistogramTotal = NO_STEPS
    lost_ns: Counter[str] = field(default_factory=Counter)
    culprits_ns: Counter[tuple[str, str]] = field(default_factory=Counter)
    states_ns: Counter[str] = field(default_factory=Counter)
    voluntary: int = 0
    involuntary: int = 0
    operations: dict[tuple[str, str], OperationTime] = field(default_factory=dict)
    call_sites: SiteSums = field(default_factory=SiteSums)
    latest: deque[Window] = field(default_factory=lambda: deque(maxlen=LATEST))

    def add(self, window: Window, *, with_operations: bool) -> None:
        self.labels = window.labels
        self.ended_unix_ns = window.ended_unix_ns
        self.covered_ns += window.duration_ns
        self.steps = self.steps.plus(window.steps)
        self.lost_ns.update(window.lost_ns)
        self.culprits_ns.update({(cause, culprit): ns for cause, culprit, ns in window.culprits_ns})
        self.states_ns.update(window.states_ns)
        self.voluntary += window.switches.voluntary
        self.involuntary += window.switches.involuntary
        self.latest.append(window)
        for one in window.operations if with_operations else ():
            known = self.operations.get((one.api, one.name))
            self.operations[one.api, one.name] = one if known is None else _plus(known, one)
        if with_operations:
            self.call_sites.add(window.call_sites)

    @property
    def step_ns(self) -> float | None:
        """Mean duration of a step; None without steps."""
        return mean_ns(self.steps)

    @property
    def latest_step_ns(self) -> float | None:
        """Mean duration of a step in the last window that has any."""
        return next((mean_ns(one.steps) for one in reversed(self.latest) if one.steps.counts.total), None)

    @property
    def lost_share(self) -> float:
        """Share of the covered time; at most 1, since what was lost before a window may be decided in it."""
        return min(sum(self.lost_ns.values()) / self.covered_ns, 1.0) if self.covered_ns else 0.0

    @property
    def stolen_ns(self) -> int:
        """Time ready to run, but not on a CPU."""
        return sum(self.states_ns[state] for state in STOLEN_STATES)

    @property
    def off_cpu_ns(self) -> int:
        """Time not on a CPU, without waits for the GPU, which may spin or sleep."""
        return sum(ns for state, ns in self.states_ns.items() if state not in (*ON_CPU_STATES, WAITING_FOR_GPU))

    def since(self, unix_ns: int) -> tuple[float, HistogramTotal]:
        """Length and steps of the latest windows, as far as they began then or later."""
        windows = [window for window in self.latest if window.began_unix_ns >= unix_ns]
        covered_ns = sum(window.duration_ns for window in windows)
        steps = NO_STEPS
        for window in windows:
            steps = steps.plus(window.steps)
        return covered_ns, steps


def _plus(known: OperationTime, more: OperationTime) -> OperationTime:
    return known._replace(
        calls=known.calls + more.calls, errors=known.errors + more.errors, timed=known.timed.plus(more.timed)
    )


class Sums:
    """Sums of all selected processes. spans: times that were recorded, even if no process did anything."""

    def __init__(self, selection: Selection, *, with_operations: bool) -> None:
        self._selection = selection
        self._with_operations = with_operations
        self._processes: dict[tuple[int, int], ProcessSum] = {}
        self.spans: list[tuple[int, int]] = []

    def add(self, recorded: Iterable[RecordedWindows]) -> None:
        """Oldest first."""
        for run, began_unix_ns, ended_unix_ns, windows in recorded:
            if self.spans and began_unix_ns <= self.spans[-1][1] + NANOSECONDS:
                self.spans[-1] = (self.spans[-1][0], max(ended_unix_ns, self.spans[-1][1]))
            else:
                self.spans.append((began_unix_ns, ended_unix_ns))
            for window in windows:
                if self._selection.matches(window.labels.identity, window.labels.tgid):
                    self._add(run, window)

    def _add(self, run: int, window: Window) -> None:
        known = self._processes.get((run, window.process))
        if known is None:
            known = ProcessSum(run, window.process, window.labels, window.began_unix_ns)
            self._processes[run, window.process] = known
        known.add(window, with_operations=self._with_operations)

    def processes(self) -> tuple[ProcessSum, ...]:
        """By container, rank and process id."""
        return tuple(sorted(self._processes.values(), key=_order))


def _order(process: ProcessSum) -> tuple[str, int, str, int]:
    identity = process.labels.identity
    number = int(identity.rank) if identity.rank.isascii() and identity.rank.isdigit() else 1 << 30
    return identity.container, number, identity.rank, process.labels.tgid


def mean_ns(total: HistogramTotal) -> float | None:
    """None if nothing was counted."""
    count = total.counts.total
    return total.sum_ns / count if count else None
