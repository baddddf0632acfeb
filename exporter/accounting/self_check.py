"""Measures the error of the accounting against clocks that it does not use: the kernel's own sums, and wall time.

In: the living threads, at two readings. Out: errors as a share of what was measured; 0 is perfect.
"""

from __future__ import annotations

from collections.abc import Sequence

from exporter.kernel.abi import ThreadState
from exporter.kernel.thread_rows import ThreadRow

RUNNABLE, WALL = "runnable", "wall"

WAKE_NS = 40_000
"""The kernel's run_delay leaves out the time until the run queue's clock advances after a wake-up: 7 to 27 us were measured."""

_WAITING = (ThreadState.RUNNABLE, ThreadState.THROTTLED)


class SelfCheck:
    """Errors over all threads since the exporter started."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, int], ThreadRow] = {}
        self._error_ns = {RUNNABLE: 0, WALL: 0}
        self._measured_ns = {RUNNABLE: 0, WALL: 0}

    def update(self, threads: Sequence[ThreadRow]) -> None:
        """Compare the growth of every thread that was read before. A thread that waits for a CPU is compared later:

        its wait so far is accounted already, and the kernel adds it to run_delay when it ends.
        """
        before, self._before = self._before, {}
        for thread in threads:
            key = (thread.process, thread.tid)
            earlier = before.get(key)
            if earlier is not None and sum(thread.booked_ns) < sum(earlier.booked_ns):
                earlier = None  # another thread has the same tid
            if thread.state in _WAITING:
                if earlier is not None:
                    self._before[key] = earlier
                continue
            self._before[key] = thread
            if earlier is not None:
                self._compare(earlier, thread)

    def _compare(self, earlier: ThreadRow, thread: ThreadRow) -> None:
        wall_ns = thread.read_ns - earlier.read_ns
        booked_ns = sum(thread.booked_ns) - sum(earlier.booked_ns)
        self._add(WALL, abs(booked_ns - wall_ns), wall_ns)
        waited_ns = sum(thread.booked_ns[state] - earlier.booked_ns[state] for state in _WAITING)
        run_delay_ns = thread.run_delay_ns - earlier.run_delay_ns
        allowed_ns = (thread.wakes - earlier.wakes) * WAKE_NS
        missing_ns, surplus_ns = run_delay_ns - waited_ns, waited_ns - run_delay_ns - allowed_ns
        self._add(RUNNABLE, max(missing_ns, surplus_ns, 0), max(waited_ns, run_delay_ns))

    def _add(self, figure: str, error_ns: int, measured_ns: int) -> None:
        self._error_ns[figure] += error_ns
        self._measured_ns[figure] += measured_ns

    def errors(self) -> dict[str, float]:
        """Figure -> error as a share of what was measured; 0 before anything was."""
        return {
            figure: self._error_ns[figure] / self._measured_ns[figure] if self._measured_ns[figure] else 0.0
            for figure in self._error_ns
        }
