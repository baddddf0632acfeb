"""A recording of single calls as a stream of frames: from the exporter to the command that asked for it, or into a file.

In: what a recording holds. Out: bytes, and back. Frames: a head, threads, pieces of the ring as they are, threads again, an
end; or a failure instead. Both sides must be of the same version: numbers of operations are valid for one version only.
"""

from __future__ import annotations

import enum
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from exporter import __version__
from exporter.errors import BadInput, ExporterError, NotPossibleHere
from exporter.kernel import abi
from exporter.kernel.operations import OPERATIONS
from exporter.model import Identity
from exporter.text import untrusted

FRAME_BYTES_MAX: Final = 4 << 20
_HEADER = struct.Struct("<cI")
_LAYOUT = zlib.crc32(
    repr(
        (
            [one.name for one in OPERATIONS],
            abi.RECORDED_CALL.members,
            abi.RECORDED_CHANGE.members,
            list(abi.ThreadState),
        )
    ).encode()
)


class FrameKind(enum.Enum):
    """What a frame holds."""

    HEAD = b"H"
    THREADS = b"T"
    PIECE = b"P"
    END = b"E"
    FAILURE = b"F"


class RecordingHead(NamedTuple):
    """unix_offset_ns: from CLOCK_MONOTONIC to the time of day."""

    node: str
    began_ns: int
    unix_offset_ns: int


class RecordedThread(NamedTuple):
    """A thread at the beginning or at the end. operation: of its outermost open call, abi.OPERATION_NONE in a gap."""

    process: int
    tid: int
    tgid: int
    state: int
    operation: int
    read_ns: int
    opened_ns: int
    comm: str


class RecordedJob(NamedTuple):
    """A process, and how many of its events there are. full, left_out: see RecordedCounts."""

    identity: Identity | None
    tgid: int
    comm: str
    calls: int
    changes: int
    full: int
    left_out: int


class RecordingEnd(NamedTuple):
    """processes: by number. skipped: events that the kernel skipped. reason: why it ended."""

    ended_ns: int
    reason: str
    skipped: int
    processes: Mapping[int, RecordedJob]


def frame(kind: FrameKind, content: bytes) -> bytes:
    return _HEADER.pack(kind.value, len(content)) + content


def head_frame(head: RecordingHead) -> bytes:
    return _document(FrameKind.HEAD, {"version": __version__, "layout": _LAYOUT, **head._asdict()})


def threads_frame(threads: list[RecordedThread]) -> bytes:
    return _document(FrameKind.THREADS, [list(thread) for thread in threads])


def end_frame(end: RecordingEnd) -> bytes:
    processes = {
        str(number): {**job._asdict(), "identity": job.identity and list(job.identity.values())}
        for number, job in end.processes.items()
    }
    return _document(FrameKind.END, {**end._asdict(), "processes": processes})


def failure_frame(error: ExporterError) -> bytes:
    return _document(FrameKind.FAILURE, {"message": str(error), "remedy": error.remedy, "exit_code": error.exit_code})


def _document(kind: FrameKind, document: Any) -> bytes:
    return frame(kind, json.dumps(document, separators=(",", ":")).encode())


def frames(read: Callable[[int], bytes]) -> Iterator[tuple[FrameKind, bytes]]:
    """Kind and content of each frame. read: returns that many bytes, fewer at the end. Raises NotPossibleHere if it is cut."""
    while header := read(_HEADER.size):
        if len(header) < _HEADER.size:
            raise _cut()
        kind, length = _HEADER.unpack(header)
        content = read(length) if length <= FRAME_BYTES_MAX else b""
        if length > FRAME_BYTES_MAX or len(content) < length or kind not in {one.value for one in FrameKind}:
            raise _cut()
        yield FrameKind(kind), content


def head_of(content: bytes) -> RecordingHead:
    """Raises BadInput for that of another version, NotPossibleHere for none at all."""
    document = _mapping(content)
    if document.get("layout") != _LAYOUT:
        raise BadInput(
            f"the running exporter is version {document.get('version')}, this one is {__version__}",
            remedy="use the `record` of the running one",
        )
    return RecordingHead(*(document[name] for name in RecordingHead._fields))


def threads_of(content: bytes) -> list[RecordedThread]:
    return [RecordedThread(*row) for row in json.loads(content)]


def end_of(content: bytes) -> RecordingEnd:
    document = _mapping(content)
    processes = {
        int(number): RecordedJob(**{**row, "identity": Identity(*row["identity"]) if row["identity"] else None})
        for number, row in document.pop("processes").items()
    }
    return RecordingEnd(processes=processes, **document)


def failure_of(content: bytes) -> ExporterError:
    """What the other side refused, with its exit code."""
    document = _mapping(content)
    kind = BadInput if document.get("exit_code") == BadInput.exit_code else NotPossibleHere
    return kind(str(document.get("message")), remedy=str(document.get("remedy")))


def _mapping(content: bytes) -> dict[str, Any]:
    try:
        return dict(untrusted.mapping(json.loads(content)))
    except ValueError as error:
        raise _cut() from error


def _cut() -> NotPossibleHere:
    return NotPossibleHere("the recording ended early: the exporter has stopped, or is not an exporter")
