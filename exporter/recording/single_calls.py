"""Records single calls for a time: reads the ring often enough, and stops at its bounds.

In: a CallRecording, who is recorded, where frames go. Out: frames. Nothing is kept: what cannot be sent stays in the ring, and
what has no room there is counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from exporter.kernel.call_recording import CallRecording, RecordedCounts
from exporter.kernel.loader import Kernel
from exporter.kernel.probes import Attachment
from exporter.kernel.thread_rows import ThreadRow
from exporter.model import Identity
from exporter.recording.call_stream import (
    FrameKind,
    RecordedJob,
    RecordedThread,
    RecordingEnd,
    RecordingHead,
    end_frame,
    frame,
    head_frame,
    threads_frame,
)
from exporter.text.printable import printable

log = logging.getLogger(__name__)

SECONDS_MAX: Final = 3600.0
BYTES_MAX: Final = 1 << 30
PIECE_BYTES: Final = 1 << 20
READ_SECONDS: Final = 0.05
"""Between two looks at the ring."""

_NO_COUNTS = RecordedCounts(0, 0, 0, 0)


class RecordingRequest(NamedTuple):
    """What to record. most_bytes: of the ring; the recording ends there. only: numbers of processes; None: all."""

    seconds: float
    most_bytes: int
    only: frozenset[int] | None


class Recorded(NamedTuple):
    """What a recording is made from. workloads: process number -> identity and tgid. names: process number -> command."""

    kernel: Kernel
    node: str
    overhead_limit: float
    attachments: Callable[[], Iterable[Attachment]]
    workloads: Callable[[], Mapping[int, tuple[Identity | None, int]]]
    names: Callable[[], Mapping[int, str]]
    threads: Callable[[], Iterable[ThreadRow]]


def record(
    source: Recorded, request: RecordingRequest, send: Callable[[bytes], None], stopping: threading.Event
) -> None:
    """Until its end, or until `stopping` is set. send: raises OSError when its reader has gone. Raises ExporterError."""
    recording = CallRecording(source.kernel, only=request.only, overhead_limit=source.overhead_limit)
    try:
        recording.follow(source.attachments())
        log.info("recording single calls for %.3g s", request.seconds)
        offset_ns = time.time_ns() - time.monotonic_ns()
        send(head_frame(RecordingHead(source.node, recording.began_ns, offset_ns)))
        send(threads_frame(_threads(source, request.only)))
        reason = _copy(recording, source, request, send, stopping)
        ended_ns = time.monotonic_ns()
        recording.stop()
        while piece := recording.take(PIECE_BYTES):
            send(frame(FrameKind.PIECE, piece))
        send(threads_frame(_threads(source, request.only)))
        send(end_frame(RecordingEnd(ended_ns, reason, recording.skipped(), _jobs(source, recording.counts()))))
    finally:
        recording.close()


def _copy(
    recording: CallRecording,
    source: Recorded,
    request: RecordingRequest,
    send: Callable[[bytes], None],
    stopping: threading.Event,
) -> str:
    """Why it ended."""
    copied_bytes = 0
    until = time.monotonic() + request.seconds
    while True:
        recording.follow(source.attachments())
        while piece := recording.take(PIECE_BYTES):
            send(frame(FrameKind.PIECE, piece))
            copied_bytes += len(piece)
            if copied_bytes >= request.most_bytes:
                return "bytes"
            if len(piece) < PIECE_BYTES // 2:
                break
        if time.monotonic() >= until:
            return "time"
        if stopping.wait(min(READ_SECONDS, max(until - time.monotonic(), 0.0))):
            return "stopped"


def _threads(source: Recorded, only: frozenset[int] | None) -> list[RecordedThread]:
    return [
        RecordedThread(
            row.process,
            row.tid,
            row.tgid,
            row.state,
            row.operation,
            row.read_ns,
            row.opened_ns,
            printable(row.comm.rstrip(b"\0").decode(errors="replace")),
        )
        for row in source.threads()
        if row.process and (only is None or row.process in only)
    ]


def _jobs(source: Recorded, counts: Mapping[int, RecordedCounts]) -> dict[int, RecordedJob]:
    workloads, names = source.workloads(), source.names()
    found = {}
    for number, count in counts.items():
        identity, tgid = workloads.get(number, (None, 0))
        found[number] = RecordedJob(identity, tgid, names.get(number, ""), *count)
    return found
