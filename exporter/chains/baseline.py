"""Baseline of a job: the regime it works in, those it worked in before, and what its last half minute was like.

In: Windows of a second, and whether they were quiet. Out: the current Regime; the Level before a moment; lasting changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from exporter.chains.regime import Regime, is_same_work
from exporter.chains.thresholds import (
    BEFORE_NS,
    CHANGE_REPORTED,
    CHANGE_SPREADS,
    LASTING_CHANGE_NS,
    REGIMES_KEPT,
    WINDOWS_BEFORE,
)
from exporter.chains.window import BaselineWindow, Level, level_of


class LastingChange(NamedTuple):
    """A job that works in another way for good. began_ns: CLOCK_MONOTONIC."""

    began_ns: int
    step_ns_before: float
    step_ns: float
    calls_before: float
    calls: float

    def is_much(self, spread: float) -> bool:
        """Whether it is worth a report. spread: standard deviation of a window, as a share of it."""
        difference = abs(self.step_ns / self.step_ns_before - 1) if self.step_ns_before else 0.0
        is_other_length = difference >= max(CHANGE_REPORTED, CHANGE_SPREADS * spread)
        return is_other_length or not is_same_work(self.calls, self.calls_before)

    @property
    def detail(self) -> str:
        """`steps take 47.1 ms (+12 %) with 130 calls for the last minute, 42.0 ms with 130 calls before`"""
        now_ms, before_ms = self.step_ns / 1e6, self.step_ns_before / 1e6
        percent = 100 * (self.step_ns / self.step_ns_before - 1)
        return (
            f"steps take {now_ms:.1f} ms ({percent:+.0f} %) with {self.calls:.0f} calls for the last minute, "
            f"{before_ms:.1f} ms with {self.calls_before:.0f} calls before"
        )


class Baseline:
    """Baseline of one process. usual: the current regime."""

    def __init__(self) -> None:
        self.usual = Regime()
        self._others: list[Regime] = []  # the most recently used last
        self._recent: list[BaselineWindow] = []  # since the last restart()
        self._faster: list[BaselineWindow] = []  # the last quiet windows, while each of them is faster
        self._settled: Regime | None = None  # the last one that lasted
        self._settled_step_ns = self._settled_calls = 0.0

    # ---- the regime

    def learn(self, window: BaselineWindow) -> None:
        """Add a second in which nothing was wrong."""
        if self.usual.is_faster(window):
            self._faster.append(window)
            newer = Regime(self._faster)
            if newer.is_known:
                self._replace(newer)
            return
        for known in (*self._faster, window):
            self.usual.add(known)
        self._faster.clear()

    def adopt(self, *, is_fault: bool = False) -> bool:
        """What the job was like since restart(), or in the last half minute, is its regime from now on. False while too little is
        known of it. is_fault: a chain was open for it; when it comes back, it is not taken for normal.
        """
        newer = Regime(self._recent, is_fault=is_fault)
        if not newer.is_known:
            return False
        is_drift = self._settled is self.usual and _is_drift(self._recent)
        self._replace(newer)
        if is_drift:
            self._settle()
        return True

    def switch(self, step_ns: float, calls_per_step: float) -> bool:
        """Go back to a regime that the job was in before, if one of them explains these steps."""
        for other in reversed(self._others):
            if other.fits(step_ns, calls_per_step):
                self._others.remove(other)
                self._replace(other)
                return True
        return False

    def leave(self, step_ns: float, calls_per_step: float, *, is_certain: bool) -> bool:
        """The job does other work: go back to a regime that explains it or, if it is certain, begin a new one. False: neither."""
        if self.switch(step_ns, calls_per_step):
            return True
        if is_certain:
            self.forget()
        return is_certain

    def forget(self) -> None:
        """The job does other work than before, and what that is like is yet to be learned."""
        self._replace(Regime())

    def _replace(self, newer: Regime) -> None:
        if self.usual.is_worth_keeping:
            others = [one for one in self._others if not one.is_like(self.usual)]
            self._others = [*others, self.usual][-REGIMES_KEPT:]
        self.usual = newer
        self._faster = []

    # ---- what was before a moment

    def record(self, window: BaselineWindow) -> None:
        """Add any second, slow or not."""
        self.usual.record(window)
        self._recent.append(window)
        while window.ended_ns - self._recent[0].ended_ns > BEFORE_NS:
            del self._recent[0]

    def restart(self, since_ns: int) -> None:
        """What comes is not compared with what was recorded before a moment."""
        self._recent = [one for one in self._recent if one.ended_ns - one.wall_ns >= since_ns]

    def level_before(self, moment_ns: int) -> Level | None:
        """The half minute before a moment, since the last restart(); None if that is too little."""
        before = [one for one in self._recent if moment_ns - BEFORE_NS < one.ended_ns <= moment_ns]
        return level_of(before) if len(before) >= WINDOWS_BEFORE else None

    # ---- lasting changes

    def lasting_change(self, now_ns: int) -> LastingChange | None:
        """The change, at the one tick at which another regime has lasted for a minute. Slow drift is none."""
        usual = self.usual
        if not usual.step_ns or now_ns - usual.began_ns < LASTING_CHANGE_NS:
            return None
        before = LastingChange(
            usual.began_ns, self._settled_step_ns, usual.step_ns, self._settled_calls, usual.calls_per_step
        )
        is_change = self._settled is not None and self._settled is not usual and before.is_much(usual.spread)
        self._settle()
        return before if is_change else None

    def _settle(self) -> None:
        self._settled, self._settled_step_ns, self._settled_calls = (
            self.usual,
            self.usual.step_ns,
            self.usual.calls_per_step,
        )


def _is_drift(windows: Sequence[BaselineWindow]) -> bool:
    """Whether the job still becomes slower or faster: the last third differs from the first by half of what all differ by."""
    third = max(len(windows) // 3, 1)
    first, last, whole = (level_of(part).late for part in (windows[:third], windows[-third:], windows))
    return abs(last - first) > abs(whole) / 2
