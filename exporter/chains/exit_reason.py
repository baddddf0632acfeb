"""Separates a crash from a regular end: a signal or an exit code that means an error.

In: how the process ended, and its last CUDA error. Out: the cause, and a sentence about it.
"""

from __future__ import annotations

import signal
from typing import NamedTuple

from exporter.causes import Cause
from exporter.units import NANOSECONDS

_OF_ERRORS = (
    signal.SIGSEGV,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGTRAP,
    signal.SIGSYS,
)
"""Sent by the kernel, or by the program to itself. Others, SIGKILL among them, are sent to end it on purpose."""
_WISHED_CODES = (0, *(128 + one for one in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)))
"""Exit codes of shells, and of programs that end in order, after a signal."""
RECENT_ERROR_NS = 60 * NANOSECONDS
"""An older error did not end the process."""
_AT_ONCE_SECONDS = 0.05  # less would be shown as 0.0 s


class CallError(NamedTuple):
    """call: the function. code: the error code of CUDA or NCCL."""

    call: str
    code: int
    at_ns: int


class Ending(NamedTuple):
    """signal: 0 if the process exited, and then code counts. is_victim: killed by the kernel because memory ran out."""

    signal: int
    code: int
    is_victim: bool = False
    at_ns: int = 0
    error: CallError | None = None

    @property
    def cause(self) -> Cause | None:
        """None without a crash."""
        if self.is_victim:
            return Cause.OOM_KILLED
        is_crash = self.signal in _OF_ERRORS if self.signal else self.code not in _WISHED_CODES
        return Cause.CRASH if is_crash else None

    @property
    def sentence(self) -> str:
        """`ended by SIGSEGV; cudaStreamSynchronize had returned error 700 0.2 s before`"""
        how = f"ended by {_name(self.signal)}" if self.signal else f"ended with exit code {self.code}"
        if self.error is None or self.at_ns - self.error.at_ns > RECENT_ERROR_NS:
            return how
        before_seconds = max(self.at_ns - self.error.at_ns, 0) / NANOSECONDS
        when = f"{before_seconds:.1f} s before" if before_seconds >= _AT_ONCE_SECONDS else "immediately before"
        return f"{how}; {self.error.call} had returned error {self.error.code} {when}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
