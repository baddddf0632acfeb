"""Who ended the sleeps of a job's threads for locks and pipes. Partner in C: bpf/lib/awaited.bpf.h.

In: a MapReader, None if its programs are not loaded. Out: nanoseconds by key, cumulative.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import Awaited, ThreadState
from exporter.kernel.maps import MapReader


class AwaitedBy(NamedTuple):
    """The holder of a lock, the writer or the reader of a pipe. tgid: in the machine's pid namespace. comm: up to its NUL."""

    tgid: int
    kind: Awaited
    comm: bytes


class AwaitedKey(NamedTuple):
    """Key of `awaited`. state: of the sleepers."""

    process: int
    state: ThreadState
    by: AwaitedBy


def awaited_by(tgid: int, kind: int, comm: bytes) -> AwaitedBy:
    """From the members of a row."""
    return AwaitedBy(tgid, Awaited(kind), comm.split(b"\0", 1)[0])


def read_awaited(table: MapReader | None) -> dict[AwaitedKey, int]:
    """Sleeps that have ended. The kernel evicts rows not used for long; such a row begins again at zero."""
    rows: dict[AwaitedKey, int] = {}
    for raw, value in table.items() if table else ():
        process, state, *by = abi.AWAITED_KEY.unpack(raw)
        key = AwaitedKey(process, ThreadState(state), awaited_by(*by))
        rows[key] = rows.get(key, 0) + abi.COUNT.unpack(value)[0]
    return rows
