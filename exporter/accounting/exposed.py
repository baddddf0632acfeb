"""Computes how much later waits for the GPU ended because of the host. What happens behind a busy GPU delays nothing.

In: the exposures of a process. Out: nanoseconds lost since the last update. Partner in C: exposure_book() in
bpf/lib/exposure.bpf.h.

Some delays are known exactly. For the others, and for late stalls, an upper bound is known: what such waits exceed clean ones by,
together with the stalls before them, is lost, but at most the stalls and the delays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exporter.accounting.sharing import shared
from exporter.accounting.wait_baseline import MIN_CLEAN, Ceiling, WaitBaseline
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.thread_rows import Exposure, ExposureKey

_NONE = Exposure(*(0,) * len(Exposure._fields))
_STALLED_SHARE = 32
"""Without clean waits, only waits whose late stalls are longer than this part of them have a baseline. CLEAN_SHARE in C."""
_EVENT_WAIT_NS = 200_000
"""An event that is usually reached sooner, as that of a copy, says nothing about the GPU: more work is queued behind it."""


class Exposed(NamedTuple):
    """Nanoseconds lost since the last update.

    runnable_ns, throttled_ns, stopped_ns: in synchronising calls, waiting for a CPU, throttled by the quota of the own cgroup,
    and stopped. late_ns: late stalls before them, of any state.
    """

    runnable_ns: int = 0
    throttled_ns: int = 0
    stopped_ns: int = 0
    late_ns: int = 0

    def plus(self, other: Exposed) -> Exposed:
        return Exposed(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))

    @property
    def in_calls_ns(self) -> int:
        """The part in synchronising calls."""
        return sum(self) - self.late_ns


class _Waits:
    """Waits of one kind. undecided: what they may have lost, at most, and could not be decided yet."""

    def __init__(self, *, is_for_event: bool = False) -> None:
        self._is_for_event = is_for_event
        self._before = _NONE
        self.baseline = WaitBaseline()
        self._ceiling = Ceiling()
        self._calls = self._total_ns = 0  # undecided
        self.undecided = Exposed()

    def update(self, row: Exposure) -> Exposed:
        grown = Exposure(*(max(now - then, 0) for now, then in zip(row, self._before, strict=True)))
        self._before = row
        self.baseline.add(grown.clean_calls, grown.clean_ns)
        self._calls += grown.calls
        self._total_ns += grown.total_ns
        waited_ns = max(grown.max_ns - grown.max_throttled_ns, 0)
        most = Exposed(waited_ns, grown.max_throttled_ns, grown.stopped_ns, grown.late_ns)
        self.undecided = self.undecided.plus(most)
        exact = Exposed(max(grown.exact_ns - grown.exact_throttled_ns, 0), grown.exact_throttled_ns)
        return exact.plus(self._decide()) if self._calls else exact

    def _decide(self) -> Exposed:
        expected_ns = self._expected_ns()
        if expected_ns is None:
            return Exposed()
        most = self.undecided
        if self._is_for_event and expected_ns < self._calls * _EVENT_WAIT_NS:
            most = most._replace(late_ns=0)
        lost_ns = min(max(self._total_ns + most.late_ns - expected_ns, 0), sum(most))
        self._calls = self._total_ns = 0
        self.undecided = Exposed()
        return _divided(lost_ns, most) if lost_ns else Exposed()

    def _expected_ns(self) -> int | None:
        """What these waits take without stalls and delays; None while that is not known.

        A job that stalls before every wait has no clean ones: then there is a ceiling.
        """
        if self.baseline.is_known:
            return self.baseline.expected_ns(self._calls)
        most = self.undecided
        if self._calls < MIN_CLEAN or most.late_ns * _STALLED_SHARE < self._total_ns:
            return None
        self._ceiling.add(self._calls, max(self._total_ns - most.in_calls_ns, 0), sum(most))
        return self._ceiling.expected_ns(self._calls)


def _divided(lost_ns: int, most: Exposed) -> Exposed:
    """By what may have caused it. The GPU's work hides more of waits for a CPU, which are short, than of stops."""
    stopped_ns = min(most.stopped_ns, lost_ns)
    others = {"runnable_ns": most.runnable_ns, "throttled_ns": most.throttled_ns, "late_ns": most.late_ns}
    rest_ns = lost_ns - stopped_ns
    return Exposed(stopped_ns=stopped_ns, **shared(rest_ns, others)) if rest_ns else Exposed(stopped_ns=stopped_ns)


class ExposedLoss:
    """Exposed waits of one process."""

    def __init__(self) -> None:
        self._waits: dict[ExposureKey, _Waits] = {}
        self._advanced_ns = 0  # of stops

    def update(self, rows: Iterable[tuple[ExposureKey, Exposure]], stopped_ns: int = 0) -> Exposed:
        """Lost since the last update. rows: those that have changed. stopped_ns: in the open call of a stopped thread.

        The certain part of a stop is counted in advance, and deducted when its call has ended.
        """
        lost = Exposed()
        for key, row in rows:
            if key not in self._waits:
                self._waits[key] = _Waits(is_for_event=OPERATIONS[key.operation].is_for_event)
            lost = lost.plus(self._waits[key].update(row))
        returned_ns = min(lost.stopped_ns, self._advanced_ns)
        longest_ns = self.longest_wait_ns
        surely_ns = max(stopped_ns - longest_ns, 0) if longest_ns is not None else 0
        self._advanced_ns -= returned_ns
        more_ns = max(surely_ns - self._advanced_ns, 0)
        self._advanced_ns += more_ns
        return lost._replace(stopped_ns=lost.stopped_ns - returned_ns + more_ns)

    @property
    def undecided_late_ns(self) -> int:
        """Late stalls whose wait is over, and of which it is not known yet whether they were hidden."""
        return sum(waits.undecided.late_ns for waits in self._waits.values())

    @property
    def longest_wait_ns(self) -> int | None:
        """How long the GPU may have queued work for; None while that is not known."""
        known = [waits.baseline.expected_ns(1) for waits in self._waits.values() if waits.baseline.is_known]
        return max(known, default=None)
