"""Slow calls by the stack of Python functions that made them. Partner in C: bpf/lib/call_sites.bpf.h."""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import PythonStatus
from exporter.kernel.maps import MapReader
from exporter.kernel.python_frames import CodeFrame, code_frames

_HEAD = abi.CALL_SITE_ROW.part("calls", "frame_count")
_FRAMES_AT = abi.CALL_SITE_ROW.offset("frames")


class CallSiteKey(NamedTuple):
    """process: its number. stack: a hash of the frames."""

    process: int
    operation: int
    stack: int


class CallSiteRow(NamedTuple):
    """Value of `call_sites`: slow calls so far, with the time of all and of the slowest.

    slow_ns: calls that took longer were slow, as of the last one.
    tid, tgid: of the thread that made the first one. place: which of the interpreters in the process. frames: innermost first.
    """

    calls: int
    total_ns: int
    slowest_ns: int
    slow_ns: int
    tid: int
    tgid: int
    place: int
    status: PythonStatus
    frames: tuple[CodeFrame, ...]


def read_call_sites(table: MapReader | None) -> dict[CallSiteKey, CallSiteRow]:
    """All rows. None: the programs that write the map are not loaded."""
    return {_key(key): _row(value) for key, value in (table.items() if table else ())}


def _key(key: bytes) -> CallSiteKey:
    process, operation, _, stack = abi.CALL_SITE_KEY.unpack(key)
    return CallSiteKey(process, operation, stack)


def _row(value: bytes) -> CallSiteRow:
    calls, total_ns, slowest_ns, slow_ns, tid, tgid, place, status, count = _HEAD.unpack_from(value)
    frames = code_frames(value[_FRAMES_AT:], count)
    return CallSiteRow(calls, total_ns, slowest_ns, slow_ns, tid, tgid, place, PythonStatus(status), frames)
