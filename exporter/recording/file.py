"""Recordings as files, with the suffix .capsule. A file is written atomically, and refused if it was truncated or edited.

A file that is read may have been made by any program, checksum and all.

A line with the format and a checksum of the rest, a line of JSON, and the ticks.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from exporter.chains.event import TIME_NS_MAX, ChainEvent
from exporter.clock import Moment
from exporter.errors import BadInput
from exporter.files import content
from exporter.model import Identity
from exporter.python.call_site import CallSite
from exporter.recording import call_sites
from exporter.recording.codec import LAYOUT, Tick
from exporter.text import untrusted

SUFFIX = ".capsule"
FORMAT = 1
MAX_BYTES = 16 << 20
"""Limit for a file that is read. The ticks of a minute take at most 6 MiB (ring.MAX_BYTES)."""
MAX_TICKS = 6_000
"""Ticks of a minute that are 10 ms apart, the shortest interval that can be set."""
_MAX_TICK_BYTES = 4 << 20  # decompressed; the ring keeps no larger ones (ring.MAX_WHOLE_BYTES)
_MAX_HEAD_BYTES = 8 << 20
_MAX_PROCESSES = 8192  # max_entries of the map `processes`
MAX_EVENTS = 4096
_MODE = 0o640
_FIRST_LINE = re.compile(rb"gpu-stall-exporter capsule (\d{1,6}) sha256=([0-9a-f]{64}) bytes=(\d{1,12})\n")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    """tgid: 0 if it was not in the exporter's pid namespace. cpus: CPUs it might run on, such as `0-3,8`.

    call_sites: lines of Python with slow calls in the recorded minute.
    """

    identity: Identity | None
    tgid: int
    cgroup: str = ""
    cpus: str = ""
    call_sites: tuple[CallSite, ...] = ()


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
        last_ns = max(self.taken_at.monotonic_ns - self.taken_at.unix_ns, 0)  # before that there was no time of day
        for compressed in self.compressed_ticks:
            tick = Tick.decoded(_decompressed(compressed))
            if not last_ns <= tick.now_ns <= self.taken_at.monotonic_ns:
                raise ValueError("a tick is earlier than the one before, or later than the recording")
            last_ns = tick.now_ns
            yield tick


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
                "call_sites": call_sites.to_documents(one.call_sites),
            }
            for number, one in recording.processes.items()
        },
        "reports": [event.to_document() for event in recording.events],  # the key of FORMAT 1
        "ticks": len(recording.compressed_ticks),
    }
    ticks = b"".join(_LENGTH.pack(len(tick)) + tick for tick in recording.compressed_ticks)
    rest = json.dumps(head).encode() + b"\n" + ticks
    first = f"gpu-stall-exporter capsule {FORMAT} sha256={hashlib.sha256(rest).hexdigest()} bytes={len(rest)}\n"
    content.replace(path, (first.encode(), rest), _MODE)


def read(path: Path) -> Recording:
    """Raises BadInput if it is not a valid recording of this version's rows. Its text is made printable."""
    try:
        raw = content.read(path, MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise BadInput(f"{path} is not a recording: it has more than {MAX_BYTES >> 20} MiB") from None
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise BadInput(f"cannot read {path}: {error}") from None
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
    except ValueError as error:
        raise BadInput(f"{path} is not a valid recording: {error}") from None


_MAX_LAYOUT = 64
_NUMBER_DIGITS = 10
_MAX_PATH_CHARACTERS = 4096
_LABELS = ("node", "rank", "container", "namespace", "pod")


def _parsed(rest: bytes, path: Path) -> Recording:
    text, _, ticks = rest.partition(b"\n")
    head = untrusted.mapping(untrusted.json_value(text, _MAX_HEAD_BYTES))
    of = partial(untrusted.member, head)
    version = untrusted.text(of("version"))
    if untrusted.counts(of("layout"), _MAX_LAYOUT) != LAYOUT:
        raise BadInput(
            f"{path} was recorded by version {version}, whose kernel programs have other rows",
            remedy="use that version to read it",
        )
    processes = untrusted.mapping(of("processes"), _MAX_PROCESSES)
    return Recording(
        version=version,
        node=untrusted.text(of("node")),
        taken_at=_moment_of(of("taken_at")),
        processes={_number_of(number): _process_of(one) for number, one in processes.items()},
        events=tuple(map(ChainEvent.from_document, untrusted.sequence(of("reports"), MAX_EVENTS))),
        compressed_ticks=tuple(_split(ticks)),
    )


def _split(ticks: bytes) -> Iterator[bytes]:
    at = 0
    for _ in range(MAX_TICKS):
        if at == len(ticks):
            return
        if at + _LENGTH.size > len(ticks):
            break
        (length,) = _LENGTH.unpack_from(ticks, at)
        at += _LENGTH.size + length
        if at > len(ticks):
            break
        yield ticks[at - length : at]
    raise untrusted.Untrusted(f"a tick reaches beyond the file, or there are more than {MAX_TICKS}")


def _moment_of(document: Any) -> Moment:
    known = untrusted.mapping(document)
    return Moment(*(untrusted.count(untrusted.member(known, name), TIME_NS_MAX) for name in Moment._fields))


def _number_of(number: str) -> int:
    if not (number.isascii() and number.isdigit() and len(number) <= _NUMBER_DIGITS):
        raise untrusted.Untrusted("a process without a number")
    return int(number)


def _process_of(document: Any) -> RecordedProcess:
    known = untrusted.mapping(document)
    of = partial(untrusted.member, known)
    return RecordedProcess(
        Identity.from_document(of("identity")),
        untrusted.count(of("pid")),
        untrusted.text(of("cgroup"), _MAX_PATH_CHARACTERS),
        untrusted.text(of("cpus"), _MAX_PATH_CHARACTERS),
        call_sites.from_documents(known.get("call_sites", ())),  # older versions write none
    )
