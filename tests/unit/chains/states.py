"""States of a process at moments, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from exporter.accounting.progress import WorkloadProgress
from exporter.causes import Cause
from exporter.chains.findings import Findings
from exporter.chains.regime import Regime
from exporter.chains.span import ProcessState, Span
from exporter.chains.window import BaselineWindow
from tests.unit.chains.job import SECOND

MS = 1_000_000


def a_state(at_seconds: float, *, late_ns: float = 0.0, collectives: Any = None, **progress: Any) -> ProcessState:
    """At this second. progress: totals so far."""
    known: dict[str, Any] = {"lost_ns": {}} | progress
    return ProcessState(round(at_seconds * SECOND), WorkloadProgress(**known), collectives or {}, late_ns)


def a_span(seconds: float, *, late_ns: float = 0.0, collectives: Any = None, **progress: Any) -> Span:
    """From nothing at second 100, for so long. progress: what has grown in it."""
    now = a_state(100 + seconds, late_ns=late_ns, collectives=collectives, **progress)
    return Span(a_state(100), now)


def a_window(
    second: int, step_ms: float, *, calls: float = 50.0, lost: float = 0.0, late: float = 0.0
) -> BaselineWindow:
    """One second in which steps took so long; it ends at this second. lost: to a disk."""
    steps = round(1000 / step_ms) if step_ms else 0
    return BaselineWindow(second * SECOND, SECOND, steps, step_ms * MS, calls, {Cause.BLOCK_IO: lost}, lost, late)


def a_regime(*step_ms: float, calls: float = 50.0, lost: float = 0.0, is_fault: bool = False) -> Regime:
    """From a window each, in which steps took so long."""
    windows = [a_window(second, took, calls=calls, lost=lost) for second, took in enumerate(step_ms, start=101)]
    return Regime(windows, is_fault=is_fault)


def found(**changes: Any) -> Findings:
    """Steps take twice as long for four seconds; nothing explains it."""
    known: dict[str, Any] = {
        "wall_ns": 4 * SECOND,
        "steps": 200,
        "slower": 0.5,
        "pace": 0.5,
        "lost": {},
        "own_wait": 0.0,
        "other": 0.0,
        "undecided": 0.0,
        "exposed": 0.0,
        "calls": 1.0,
        "peers": {},
        "lateness": 0.0,
    }
    return Findings(**(known | changes))
