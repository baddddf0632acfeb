"""Has a process crashed? Only what nobody wished is a crash: a signal that means an error, an exit code that tells of one.

In: how it ended, and the last error that CUDA gave it. Out: the cause, and a sentence of how.
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
"""Sent by the kernel, or by the program to itself. Others, SIGKILL among them, somebody sends who wants it to end."""
_WISHED_CODES = (0, *(128 + one for one in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)))
"""A shell tells of a signal so, and so do programs that end in order when they are sent one."""
RECENT_ERROR_NS = 60 * NANOSECONDS
"""An older error has been lived with."""


class CallError(NamedTuple):
    """call: the function. code: of CUDA or NCCL."""

    call: str
    code: int
    at_ns: int


class Ending(NamedTuple):
    """signal: 0 where it ended by itself, and then code counts. is_victim: ended by the kernel, for want of memory."""

    signal: int
    code: int
    is_victim: bool = False
    at_ns: int = 0
    error: CallError | None = None

    @property
    def cause(self) -> Cause | None:
        """None where it has not crashed."""
        if self.is_victim:
            return Cause.OOM_KILLED
        is_crash = self.signal in _OF_ERRORS if self.signal else self.code not in _WISHED_CODES
        return Cause.CRASH if is_crash else None

    @property
    def sentence(self) -> str:
        """`ended by SIGSEGV; the last CUDA error was 700 of cudaStreamSynchronize, 0.2 s before`"""
        how = f"ended by {_name(self.signal)}" if self.signal else f"ended with exit code {self.code}"
        if self.error is None or self.at_ns - self.error.at_ns > RECENT_ERROR_NS:
            return how
        before = max(self.at_ns - self.error.at_ns, 0) / NANOSECONDS
        return f"{how}; the last error was {self.error.code} of {self.error.call}, {before:.1f} s before"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
