"""The file of a capsule: written whole or not at all, and refused when it was cut or edited.

In: a Recording. Out: a file of a line that names the format and the checksum of the rest, a line of JSON, and the ticks.
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
"""Of a file that is read."""
_MAX_TICK_BYTES = 64 << 20  # unpacked: what a node's tables hold is far less
_MODE = 0o640
_FIRST_LINE = re.compile(rb"gpu-stall-exporter capsule (\d{1,6}) sha256=([0-9a-f]{64}) bytes=(\d{1,12})\n")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """One process of a capsule. tgid: 0 where it was out of sight. cpus: that it was allowed on, such as `0-3,8`."""

    identity: Identity | None
    tgid: int
    cgroup: str = ""
    cpus: str = ""


@dataclass(frozen=True, slots=True)
class Recording:
    """version: of the exporter that made it. taken_at: when the last of the ticks was. ticks: encoded and compressed.

    processes: those alive then, by number. reports: what was said live, in order.
    """

    version: str
    node: str
    taken_at: Moment
    processes: Mapping[int, RecordedProcess]
    reports: tuple[ChainEvent, ...]
    packed: tuple[bytes, ...]

    def ticks(self) -> Iterator[Tick]:
        """In order. Raises ValueError when one of them cannot be unpacked."""
        for packed in self.packed:
            yield Tick.decoded(_unpacked(packed))


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, _MAX_TICK_BYTES)
    except zlib.error as error:
        raise ValueError(f"a tick cannot be unpacked: {error}") from None
    if not unpacker.eof:
        raise ValueError("a tick is not whole, or too large")
    return raw


def write(capsule: Recording, path: Path) -> None:
    """Replaces what is there. Raises OSError."""
    head = {
        "version": capsule.version,
        "layout": LAYOUT,
        "node": capsule.node,
        "taken_at": capsule.taken_at._asdict(),
        "processes": {
            str(number): {
                "identity": dict(zip(_LABELS, one.identity.values(), strict=True)) if one.identity else None,
                "pid": one.tgid,
                "cgroup": one.cgroup,
                "cpus": one.cpus,
            }
            for number, one in capsule.processes.items()
        },
        "reports": [report.to_document() for report in capsule.reports],
        "ticks": len(capsule.packed),
    }
    ticks = b"".join(_LENGTH.pack(len(tick)) + tick for tick in capsule.packed)
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
    """Raises BadInput, which says what is wrong with the file."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{path} is no capsule: it has more than {MAX_BYTES >> 20} MiB")
    line = _FIRST_LINE.match(raw)
    if line is None:
        raise BadInput(f"{path} is no capsule", remedy="give a file that the exporter wrote, with the suffix .capsule")
    rest = raw[line.end() :]
    if int(line[1]) != FORMAT:
        raise BadInput(f"{path} is a capsule of format {int(line[1])}, and this program knows {FORMAT} only")
    if len(rest) < int(line[3]):
        raise BadInput(f"{path} was cut: it has {len(rest)} of {int(line[3])} bytes", remedy="copy it once more")
    if hashlib.sha256(rest).hexdigest().encode() != line[2]:
        raise BadInput(f"{path} was edited or damaged: its checksum is another one", remedy="copy it once more")
    try:
        return _capsule_of(rest, path)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise BadInput(f"{path} is no capsule that this program can read: {error!r}") from None


_LABELS = ("node", "rank", "container", "namespace", "pod")


def _capsule_of(rest: bytes, path: Path) -> Recording:
    text, _, ticks = rest.partition(b"\n")
    head: dict[str, Any] = json.loads(text)
    if tuple(head["layout"]) != LAYOUT:
        raise BadInput(
            f"{path} has rows of other kernel programs: it was made by version {head['version']}",
            remedy="use that version of the program",
        )
    packed = []
    at = 0
    while at < len(ticks):
        (length,) = _LENGTH.unpack_from(ticks, at)
        at += _LENGTH.size + length
        packed.append(ticks[at - length : at])
    return Recording(
        version=str(head["version"]),
        node=str(head["node"]),
        taken_at=Moment(**head["taken_at"]),
        processes={int(number): _subject_of(one) for number, one in head["processes"].items()},
        reports=tuple(map(ChainEvent.from_document, head["reports"])),
        packed=tuple(packed),
    )


def _subject_of(one: Mapping[str, Any]) -> RecordedProcess:
    identity = Identity(**one["identity"]) if one["identity"] else None
    return RecordedProcess(identity, int(one["pid"]), str(one["cgroup"]), str(one["cpus"]))
