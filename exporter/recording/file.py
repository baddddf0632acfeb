"""Recordings as files, with the suffix .capsule. A file is written atomically, and refused if it was truncated or edited.

A line with the format and a checksum of the rest, a line of JSON, and the ticks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.chains.event import ChainEvent
from exporter.clock import Moment
from exporter.errors import BadInput
from exporter.model import Identity
from exporter.recording.codec import LAYOUT, Tick

SUFFIX = ".capsule"
FORMAT = 1
MAX_BYTES = 64 << 20
"""Limit for a file that is read."""
_MAX_TICK_BYTES = 64 << 20  # decompressed; the tables of a node hold far less
_MODE = 0o640
_FIRST_LINE = re.compile(rb"gpu-stall-exporter capsule (\d{1,6}) sha256=([0-9a-f]{64}) bytes=(\d{1,12})\n")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """tgid: 0 if it was not in the exporter's pid namespace. cpus: CPUs it might run on, such as `0-3,8`."""

    identity: Identity | None
    tgid: int
    cgroup: str = ""
    cpus: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """version: of the exporter that made it. taken_at: just after the last tick. compressed_ticks: oldest first.

    processes: those alive then, by number. events: chain events as they were sent live, oldest first.
    """

    version: str
    node: str
    taken_at: Moment
    processes: Mapping[int, RecordedProcess]
    events: tuple[ChainEvent, ...]
    compressed_ticks: tuple[bytes, ...]

    def ticks(self) -> Iterator[Tick]:
        """Oldest first. Raises ValueError for an invalid one."""
        for compressed in self.compressed_ticks:
            yield Tick.decoded(_decompressed(compressed))


def _decompressed(compressed: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(compressed, _MAX_TICK_BYTES)
    except zlib.error as error:
        raise ValueError(f"a tick cannot be decompressed: {error}") from None
    if not decompressor.eof:
        raise ValueError("a tick is truncated or too large")
    return raw


def write(recording: Recording, path: Path) -> None:
    """Replaces an existing file. Raises OSError."""
    head = {
        "version": recording.version,
        "layout": LAYOUT,
        "node": recording.node,
        "taken_at": recording.taken_at._asdict(),
        "processes": {
            str(number): {
                "identity": dict(zip(_LABELS, one.identity.values(), strict=True)) if one.identity else None,
                "pid": one.tgid,
                "cgroup": one.cgroup,
                "cpus": one.cpus,
            }
            for number, one in recording.processes.items()
        },
        "reports": [event.to_document() for event in recording.events],  # the key of FORMAT 1
        "ticks": len(recording.compressed_ticks),
    }
    ticks = b"".join(_LENGTH.pack(len(tick)) + tick for tick in recording.compressed_ticks)
    rest = json.dumps(head).encode() + b"\n" + ticks
    first = f"gpu-stall-exporter capsule {FORMAT} sha256={hashlib.sha256(rest).hexdigest()} bytes={len(rest)}\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(first.encode() + rest)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path) -> Recording:
    """Raises BadInput if it is not a valid recording of this version's rows."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{path} is not a recording: it has more than {MAX_BYTES >> 20} MiB")
    line = _FIRST_LINE.match(raw)
    if line is None:
        raise BadInput(
            f"{path} is not a recording", remedy="use a file that the exporter wrote, with the suffix .capsule"
        )
    rest = raw[line.end() :]
    if int(line[1]) != FORMAT:
        raise BadInput(f"{path} is a recording of format {int(line[1])}: this version reads format {FORMAT} only")
    if len(rest) < int(line[3]):
        raise BadInput(f"{path} is truncated: it has {len(rest)} of {int(line[3])} bytes", remedy="copy it again")
    if hashlib.sha256(rest).hexdigest().encode() != line[2]:
        raise BadInput(f"{path} was edited or damaged: its checksum does not match", remedy="copy it again")
    try:
        return _parsed(rest, path)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise BadInput(f"{path} is not a valid recording: {error!r}") from None


_LABELS = ("node", "rank", "container", "namespace", "pod")


def _parsed(rest: bytes, path: Path) -> Recording:
    text, _, ticks = rest.partition(b"\n")
    head: dict[str, Any] = json.loads(text)
    if tuple(head["layout"]) != LAYOUT:
        raise BadInput(
            f"{path} was recorded by version {head['version']}, whose kernel programs have other rows",
            remedy="use that version to read it",
        )
    compressed = []
    at = 0
    while at < len(ticks):
        (length,) = _LENGTH.unpack_from(ticks, at)
        at += _LENGTH.size + length
        compressed.append(ticks[at - length : at])
    return Recording(
        version=str(head["version"]),
        node=str(head["node"]),
        taken_at=Moment(**head["taken_at"]),
        processes={int(number): _process_of(one) for number, one in head["processes"].items()},
        events=tuple(map(ChainEvent.from_document, head["reports"])),
        compressed_ticks=tuple(compressed),
    )


def _process_of(one: Mapping[str, Any]) -> RecordedProcess:
    identity = Identity(**one["identity"]) if one["identity"] else None
    return RecordedProcess(identity, int(one["pid"]), str(one["cgroup"]), str(one["cpus"]))
