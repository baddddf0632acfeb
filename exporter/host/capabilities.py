"""Reads and drops the capabilities of the calling thread: capget(2), capset(2), prctl(2).

Threads that it starts later inherit them; running threads keep theirs.
"""

from __future__ import annotations

import ctypes
import enum
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache

_VERSION_3 = 0x20080522
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 38, 47
_PR_CAP_AMBIENT_RAISE, _PR_CAP_AMBIENT_CLEAR_ALL = 2, 4


class Capability(enum.IntEnum):
    """Capabilities that the exporter uses, by their numbers in linux/capability.h."""

    DAC_READ_SEARCH = 2
    SYS_PTRACE = 19
    SYS_ADMIN = 21
    LEASE = 28
    PERFMON = 38
    BPF = 39
    CHECKPOINT_RESTORE = 40

    @property
    def label(self) -> str:
        """CAP_BPF."""
        return f"CAP_{self.name}"


READING = (Capability.SYS_PTRACE, Capability.DAC_READ_SEARCH, Capability.CHECKPOINT_RESTORE)
"""What programs keep that read processes and files of tenants."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("tid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def effective() -> int:
    """The effective capabilities of the calling thread, one bit each."""
    return _bits(_read(), "effective")


def has(capability: Capability) -> bool:
    """Whether the capability is effective in the calling thread."""
    return bool(effective() >> capability & 1)


def keep_only(wanted: Collection[Capability]) -> None:
    """Drop all capabilities but these; no program that is started later can gain any. Raises OSError."""
    mask = sum(1 << one for one in wanted) & _bits(_read(), "permitted")
    _write(mask, inheritable=0)
    _checked(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


@contextmanager
def passed_on(wanted: Collection[Capability]) -> Iterator[None]:
    """Programs that this thread starts within have those of `wanted` that it has, whichever its user is. Raises OSError.

    As root a program has the others as well, until it drops them.
    """
    permitted = _bits(_read(), "permitted")
    passed = [one for one in wanted if permitted >> one & 1]
    _write(permitted, inheritable=sum(1 << one for one in passed))
    try:
        for one in passed:
            _checked(_libc().prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, int(one), 0, 0), "prctl")
        yield
    finally:
        _write(permitted, inheritable=0)


def _write(mask: int, *, inheritable: int) -> None:
    """Set the effective and permitted capabilities to `mask`; none is ambient any more. Raises OSError."""
    halves = [(one & 0xFFFFFFFF, one >> 32) for one in (mask, inheritable)]
    data = (_Data * 2)(*(_Data(own, own, passed) for own, passed in zip(*halves, strict=True)))
    _checked(_libc().prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl")
    _checked(_libc().capset(ctypes.byref(_Header(_VERSION_3, 0)), data), "capset")


def _read() -> ctypes.Array[_Data]:
    data = (_Data * 2)()
    _checked(_libc().capget(ctypes.byref(_Header(_VERSION_3, 0)), data), "capget")
    return data


def _bits(data: ctypes.Array[_Data], kind: str) -> int:
    return int(getattr(data[0], kind) | getattr(data[1], kind) << 32)


def _checked(result: int, call: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), call)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
