"""Finds the iterations and the idle time of a serving engine in its copies to the host.

In: the outputs of a serving process (bpf/lib/outputs.bpf.h). Out: how long its iterations took, which of them
were outliers, and for how long it was idle; all of it cumulative.

An iteration goes from one output to the next. A pause in between, in which the threads that give the GPU work made no call, is
idleness when it was longer than a second and than 20 medians, and is not part of the iteration; a shorter one is. An iteration is
an outlier when it took more than 3 times the median of the 64 before it, whatever it did: a prefill makes an iteration longer,
and where few iterations have one, it is an outlier.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from typing import Final, NamedTuple

from exporter.kernel.output_rows import Output, OutputRow
from exporter.totals import Counts, HistogramTotal
from exporter.units import NANOSECONDS, slot_of

MEDIAN_OF: Final = 64
"""Iterations that the median is taken of."""

MEDIAN_FROM: Final = 16
"""With fewer there is no median."""

OUTLIER_MEDIANS: Final = 3
IDLE_NS: Final = NANOSECONDS
IDLE_MEDIANS: Final = 20


class Served(NamedTuple):
    """steps: how long iterations took, None before the first. missed: ended, with an unknown duration.

    idle_ns: without work, the open pause included.
    """

    steps: HistogramTotal | None
    outliers: int
    missed: int
    idle_ns: int


class Serving:
    """Iterations of one process."""

    def __init__(self) -> None:
        self._read = 0
        self._last_ns = 0  # of the last output; 0: unknown
        self._usual: deque[int] = deque(maxlen=MEDIAN_OF)
        self._sorted: list[int] = []  # the same
        self._median_ns = 0  # 0: unknown yet
        self._counts: Counter[int] = Counter()  # by slot
        self._sum_ns = 0
        self._outliers = 0
        self._missed = 0
        self._idle_ns = 0  # of pauses that are over
        self._open_idle_ns = 0  # of the open pause, as reported last

    def update(self, row: OutputRow, now_ns: int) -> None:
        """Take the latest outputs. now_ns: CLOCK_MONOTONIC, taken before they were read."""
        outputs, overwritten = row.since(self._read)
        self._read = row.outputs
        if overwritten:
            # As many ended unseen, except the very first, and the start of the next one is unknown.
            self._missed += overwritten + bool(self._last_ns)
            self._last_ns = 0
            self._close_idleness(0)
        for output in outputs:
            self._take(output)
        self._update_open_pause(row, now_ns)

    def _take(self, output: Output) -> None:
        if self._last_ns:
            between_ns = output.at_ns - self._last_ns
            self._step(between_ns - self._close_idleness(min(self._idleness_of(output.paused_ns), between_ns)))
        self._last_ns = output.at_ns

    def _close_idleness(self, idle_ns: int) -> int:
        """A pause of this length has ended; the part reported already stays. Returns the idle time that it counts for."""
        idle_ns = max(idle_ns, self._open_idle_ns)
        self._idle_ns += idle_ns
        self._open_idle_ns = 0
        return idle_ns

    def _step(self, took_ns: int) -> None:
        step_ns = max(took_ns, 0)
        self._counts[slot_of(step_ns)] += 1
        self._sum_ns += step_ns
        if self._median_ns and step_ns > OUTLIER_MEDIANS * self._median_ns:
            self._outliers += 1
        if len(self._usual) == MEDIAN_OF:
            del self._sorted[bisect_left(self._sorted, self._usual[0])]
        self._usual.append(step_ns)
        insort(self._sorted, step_ns)
        if len(self._sorted) >= MEDIAN_FROM:
            self._median_ns = self._sorted[(len(self._sorted) - 1) // 2]

    def _update_open_pause(self, row: OutputRow, now_ns: int) -> None:
        """The open pause is idle time while no copy is outstanding and no work was given since the last output."""
        if self._last_ns and row.copied == row.outputs and row.work_ns <= self._last_ns:
            self._open_idle_ns = max(self._open_idle_ns, self._idleness_of(now_ns - self._last_ns))

    def _idleness_of(self, paused_ns: int) -> int:
        """The whole pause if it is long enough, else 0."""
        return paused_ns if paused_ns > max(IDLE_NS, IDLE_MEDIANS * self._median_ns) else 0

    def served(self) -> Served:
        steps = HistogramTotal(self._slots(), self._sum_ns) if self._counts else None
        return Served(steps, self._outliers, self._missed, self._idle_ns + self._open_idle_ns)

    def _slots(self) -> Counts:
        begin, end = min(self._counts), max(self._counts) + 1
        return Counts(begin, tuple(self._counts[slot] for slot in range(begin, end)))
