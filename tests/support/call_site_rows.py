"""Builders of rows of call sites."""

from __future__ import annotations

from typing import Any

from exporter.kernel.abi import PythonStatus
from exporter.kernel.call_site_rows import CallSiteKey, CallSiteRow
from exporter.kernel.operations import NUMBERS
from exporter.kernel.python_frames import CodeFrame


def a_key(stack: int = 7, process: int = 1) -> CallSiteKey:
    """cudaMalloc of process 1."""
    return CallSiteKey(process, NUMBERS["cudaMalloc"], stack)


def a_row(calls: int = 1, total_ns: int = 0, **changes: Any) -> CallSiteRow:
    """Calls by thread 4711 in process 4700, from one frame; 50 ms at most."""
    known: dict[str, Any] = {
        "slowest_ns": 50_000_000,
        "slow_ns": 200_000,
        "tid": 4711,
        "tgid": 4700,
        "place": 0,
        "status": PythonStatus.WALKED,
        "frames": (CodeFrame(0x1000, 0x1010, 0x77),),
    }
    return CallSiteRow(calls=calls, total_ns=total_ns, **(known | changes))
