"""Records single calls and changes of threads while it is open. What loads and fills the ring is gone when it is closed.

In: a Kernel whose programs trace calls. Out: pieces of the ring, and how many events each process had. Partner in C:
bpf/recorded.bpf.c.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from exporter.errors import NotPossibleHere
from exporter.kernel import abi, loader
from exporter.kernel import libbpf as bpf
from exporter.kernel.loader import Kernel
from exporter.kernel.probes import Attachment, Removal, observing_type
from exporter.kernel.recorded_ring import RecordedRing

RING_BYTES = 8 << 20
"""90,000 calls: those of a second of five busy processes."""
EVENT_NS = 500
"""What an event costs its thread: docs/record.md."""
_FIXED = ("recorded_switch", "recorded_waking")
_ENTER = "recorded_enter"
_RING = "recorded_events"


class RecordedCounts(NamedTuple):
    """Events of one process. full: had no room in the ring. left_out: over the bound of the process."""

    calls: int
    changes: int
    full: int
    left_out: int


class CallRecording:
    """Attached when the constructor returns. close() removes everything.

    only: numbers of the processes to record; None: all. overhead_limit: share of a CPU that it may cost a process.
    ring_bytes: a power of two. Raises KernelRefused, and NotPossibleHere where returns are not probed.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        only: Collection[int] | None,
        overhead_limit: float,
        ring_bytes: int = RING_BYTES,
        objects_dir: Path = loader.OBJECTS_DIR,
    ) -> None:
        if not kernel.with_returns:
            raise NotPossibleHere("calls have no durations, because returns are not probed", remedy="see `check`")
        self._observed: dict[int, tuple[Attachment, Removal | None]] = {}
        self._own = own = Kernel(
            kernel.libbpf, kernel.attach_kind, dict(kernel.maps), {}, {}, _event_fd=kernel._event_fd
        )
        self._parts = ExitStack()
        self._parts.callback(own.close)
        try:
            loader.load_object(own, objects_dir / "recorded.bpf.o", _wanted(kernel), {_RING: ring_bytes})
            ring = own.maps[_RING]
            self._ring = RecordedRing(ring.fd, ring.capacity)
            self._parts.callback(self._ring.close)
            self._parts.callback(self.stop)
            self._set(only, overhead_limit)
            own._links += [own.libbpf.attach(own.programs[name], name) for name in _FIXED]
        except BaseException:
            self._parts.close()
            raise

    def follow(self, attachments: Iterable[Attachment]) -> None:
        """Record the calls of these as well, of which some may be known. Raises KernelRefused."""
        for attachment in attachments:
            if id(attachment) not in self._observed:
                self._observed[id(attachment)] = attachment, attachment.observe(self._own.programs[_ENTER])

    def _set(self, only: Collection[int] | None, overhead_limit: float) -> None:
        self.began_ns = time.monotonic_ns()
        most_in_span = int(overhead_limit * (1 << abi.RECORDED_SPAN_BITS) / EVENT_NS)
        setting = abi.RECORDED_SETTING.pack(self.began_ns, most_in_span, only is not None)
        for number in only or ():
            self._own.maps["recorded_rows"].put(abi.NUMBER.pack(number), bytes(abi.RECORDED_ROW.size))
        self._own.maps["recorded_settings"].put(abi.NUMBER.pack(0), setting)

    def take(self, most_bytes: int) -> bytes:
        """Records that are waiting; empty if there are none."""
        return self._ring.take(most_bytes)

    def stop(self) -> None:
        """Detach the programs. What they wrote can still be taken. May be called twice."""
        for _, removal in self._observed.values():
            if removal is not None:
                removal()
        self._own.detach()

    def counts(self) -> dict[int, RecordedCounts]:
        """By number of the process."""
        counted = abi.RECORDED_ROW.part("calls", "left_out")
        return {
            abi.NUMBER.unpack(key)[0]: RecordedCounts(*counted.unpack_from(row))
            for key, row in self._own.maps["recorded_rows"].items()
        }

    def skipped(self) -> int:
        """Events that the kernel skipped because the program was already running on that CPU."""
        return sum(self._own.recursion_misses().values())

    def close(self) -> None:
        """Detach and unload; may be called twice."""
        self._parts.close()


def _wanted(kernel: Kernel) -> dict[str, int]:
    return dict.fromkeys(_FIXED, bpf.TRACE_RAW_TP) | {_ENTER: observing_type(kernel)}
