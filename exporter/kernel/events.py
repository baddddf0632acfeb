"""Records of the event ring, on which user space acts at once. Partner in C: bpf/lib/events.bpf.h."""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import EventKind


class KernelEvent(NamedTuple):
    """attachment: number of the surplus one. first: number of the one that the call arrived through first."""

    kind: EventKind
    process: int
    attachment: int = 0
    first: int = 0


def event_of(record: bytes) -> KernelEvent:
    kind, *about = abi.EVENT.unpack(record[: abi.EVENT.size])
    return KernelEvent(EventKind(kind), *about)
