"""Chains for tests that need one."""

from __future__ import annotations

from typing import Any

from exporter.causes import Cause
from exporter.chains.chain import Chain, Effect, Severity

SECOND = 1_000_000_000


def a_chain(**changes: Any) -> Chain:
    """Open for a second: steps take twice as long, half of the time is lost, most of it to `stress-ng`."""
    known: dict[str, Any] = {
        "id": "1" * 32,
        "process": 1,
        "cause": Cause.CPU_CONTENTION,
        "effect": Effect.GAP,
        "severity": Severity.HIGH,
        "began_ns": 10 * SECOND,
        "opened_ns": 11 * SECOND,
        "updated_ns": 11 * SECOND,
        "slowdown": 1.0,
        "usual_step_ns": 14_000_000,
        "lost_share": 0.5,
        "contribution": 0.97,
        "shares": (("cpu_contention", 0.97),),
        "culprits": (("stress-ng", 0.9), ("other", 0.1)),
    }
    return Chain(**(known | changes))
