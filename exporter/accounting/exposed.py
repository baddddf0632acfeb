"""Computes how much CPU waits delayed the return of synchronising calls. A wait while the GPU is busy anyway delays nothing.

In: the exposures of a process's operations. Out: nanoseconds lost since the last update, runnable or throttled. Partner in
C: exposure_book() in bpf/lib/exposure.bpf.h, which knows some of it exactly and an upper bound of the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exporter.accounting.sharing import shared
from exporter.accounting.wait_baseline import WaitBaseline
from exporter.kernel.abi import ThreadState
from exporter.kernel.thread_rows import Exposure, ExposureKey

_NONE = Exposure(0, 0, 0, 0, 0, 0, 0, 0)


class Exposed(NamedTuple):
    """Nanoseconds lost since the last update: runnable, and throttled by the quota of the own cgroup."""

    runnable_ns: int = 0
    throttled_ns: int = 0


class _Operation:
    """Exposure of one operation of one process."""

    def __init__(self) -> None:
        self._before = _NONE
        self._baseline = WaitBaseline()
        self._bounded_calls = self._bounded_ns = self._max_ns = 0
        self._runnable_ns = self._throttled_ns = 0

    def update(self, row: Exposure) -> Exposed:
        grown = Exposure(*(max(now - then, 0) for now, then in zip(row, self._before, strict=True)))
        self._before = row
        self._runnable_ns += grown.runnable_ns
        self._throttled_ns += grown.throttled_ns
        self._baseline.add(grown.clean_calls, grown.clean_ns)
        self._bounded_calls += grown.calls
        self._bounded_ns += grown.total_ns
        self._max_ns += grown.max_ns
        return self._split(grown.exact_ns + self._of_the_bound())

    def _of_the_bound(self) -> int:
        """How much longer the calls took than clean ones. Without enough clean ones it stays undecided."""
        if not self._baseline.is_known:
            return 0
        excess_ns = self._bounded_ns - self._baseline.expected_ns(self._bounded_calls)
        lost_ns = min(max(excess_ns, 0), self._max_ns)
        self._bounded_calls = self._bounded_ns = self._max_ns = 0
        return lost_ns

    def _split(self, lost_ns: int) -> Exposed:
        """The kernel's bound does not know the quota; the waits of the same calls do."""
        if not lost_ns:
            return Exposed()
        weights = {ThreadState.RUNNABLE: self._runnable_ns, ThreadState.THROTTLED: self._throttled_ns}
        self._runnable_ns = self._throttled_ns = 0
        if not any(weights.values()):
            return Exposed(lost_ns)
        parts = shared(lost_ns, weights)
        return Exposed(parts[ThreadState.RUNNABLE], parts[ThreadState.THROTTLED])


class ExposedLoss:
    """Exposed waits of one process."""

    def __init__(self) -> None:
        self._operations: dict[ExposureKey, _Operation] = {}

    def update(self, rows: Iterable[tuple[ExposureKey, Exposure]]) -> Exposed:
        """Lost since the last update. rows: those that have changed."""
        runnable_ns = throttled_ns = 0
        for key, row in rows:
            lost = self._operations.setdefault(key, _Operation()).update(row)
            runnable_ns += lost.runnable_ns
            throttled_ns += lost.throttled_ns
        return Exposed(runnable_ns, throttled_ns)
