"""What the kernel says of its own clock: whether something keeps it synchronized, and how far from UTC it may be.

In: adjtimex(2), which reads without a privilege. Out: KernelClock, unknown where a filter of system calls refuses it, as
ProtectClock= of systemd does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final, NamedTuple

_UNSYNCHRONIZED: Final = 0x0040  # STA_UNSYNC of <sys/timex.h>
_MICROSECOND_NS: Final = 1_000


class KernelClock(NamedTuple):
    """max_error_ns: as NTP's or PTP's daemon has set it; the kernel adds 500 ppm of the time since then. None: unknown."""

    is_synchronized: bool | None = None
    max_error_ns: int | None = None


class _Timex(ctypes.Structure):
    """The beginning of struct timex, and room for all of it: 208 bytes."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def _adjtimex(timex: _Timex) -> int:
    return int(ctypes.CDLL(None).adjtimex(ctypes.byref(timex)))


def kernel_clock(adjtimex: Callable[[_Timex], int] = _adjtimex) -> KernelClock:
    """modes is 0, so nothing is set."""
    timex = _Timex()
    if adjtimex(timex) < 0:
        return KernelClock()
    return KernelClock(not timex.status & _UNSYNCHRONIZED, max(timex.maxerror, 0) * _MICROSECOND_NS)
