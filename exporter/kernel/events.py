"""Records of the event ring: what user space has to act upon at once. Bytes in, an Event out."""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import EventKind


class KernelEvent(NamedTuple):
    """One record of the event ring. attachment: number of the surplus one; first: of the one that saw the call first."""

    kind: EventKind
    process: int
    attachment: int = 0
    first: int = 0


def event_of(record: bytes) -> KernelEvent:
    """A record of the event ring."""
    kind, *about = abi.EVENT.unpack(record[: abi.EVENT.size])
    return KernelEvent(EventKind(kind), *about)
