"""Writes a timeline as a Perfetto trace: a sequence of protobuf packets with track events.

In: items. Out: bytes, in pieces. Fields and their numbers: protos/perfetto/trace/trace_packet.proto and track_event/ there. Names
that recur are interned: written once, then referred to by number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from exporter.output.protobuf import nested, varint
from exporter.timeline.item import Argument, Arguments, Instant, Item, Slice, Track, Value

SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4
"""TrackEvent.Type."""
_EXPLICIT = 3  # TrackDescriptor.ChildTracksOrdering
_REALTIME, _BOOTTIME = 1, 6  # BuiltinClock

_INTERNED_MAX: Final = 4096
_PIECE_BYTES: Final = 1 << 16

_DOUBLE = struct.Struct("<d").pack
_PACKET = b"\x0a"  # Trace.packet
# TracePacket: all packets are of sequence 1, and need its interned names.
_SEQUENCE = b"\x50\x01"
_NEEDS_STATE, _CLEARS_STATE = b"\x68\x02", b"\x68\x01"  # sequence_flags
_CLOCK_SNAPSHOT, _TIMESTAMP, _TRACK_EVENT, _INTERNED_DATA, _TRACK_DESCRIPTOR = (
    *(b"\x32", b"\x40", b"\x5a", b"\x62", b"\xe2\x03"),
)
_NAME_IID, _NAME = b"\x50", b"\xba\x01"  # TrackEvent
_CATEGORY_IID, _CATEGORY = b"\x18", b"\xb2\x01"
_TYPE, _TRACK_UUID, _DOUBLE_VALUE, _ANNOTATION = b"\x48", b"\x58", b"\xe1\x02", b"\x22"
_ANNOTATION_NAME_IID, _ANNOTATION_NAME = b"\x08", b"\x52"  # DebugAnnotation
_FLOW = b"\xf9\x02"  # TrackEvent.flow_ids
_FIXED64 = struct.Struct("<Q").pack
_END = _TYPE + varint(SLICE_END)


class _Names:
    """Interned names of one kind. field: of InternedData. by_number, by_text: the fields that refer to a name, and hold it."""

    def __init__(self, field: bytes, by_number: bytes, by_text: bytes) -> None:
        self._field = field
        self._by_number = by_number
        self._by_text = by_text
        self._known: dict[str, bytes] = {}

    def reference(self, name: str, new: list[bytes]) -> bytes:
        """The field for a name. new: gets what must be written with the packet that first uses it."""
        known = self._known.get(name)
        if known is None:
            encoded = name.encode("utf-8", "replace")
            if len(self._known) >= _INTERNED_MAX:
                return nested(self._by_text, encoded)
            number = varint(len(self._known) + 1)
            new.append(nested(self._field, b"\x08" + number + nested(b"\x12", encoded)))
            known = self._known[name] = self._by_number + number
        return known


def encoded(items: Iterable[Item]) -> Iterator[bytes]:
    """Nothing for a timeline without items."""
    writer = _Writer()
    waiting, size_bytes = [], 0
    for item in items:
        for packet in writer.packets(item):
            waiting.append(packet)
            size_bytes += len(packet)
        if size_bytes >= _PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield b"".join(waiting)


class _Writer:
    """Remembers which tracks and names it has written."""

    def __init__(self) -> None:
        self._described: dict[int, bytes] = {}  # number of a track -> the field of its events
        self._categories = _Names(b"\x0a", _CATEGORY_IID, _CATEGORY)
        self._events = _Names(b"\x12", _NAME_IID, _NAME)
        self._arguments = _Names(b"\x1a", _ANNOTATION_NAME_IID, _ANNOTATION_NAME)

    def packets(self, item: Item) -> Iterator[bytes]:
        """The item, after the tracks that it is the first to use."""
        if not self._described:
            at_unix_ns = item.began_unix_ns if isinstance(item, Slice) else item.at_unix_ns
            yield _clocks(at_unix_ns)
        track = self._described.get(item.track.number)
        if track is None:
            yield from self._descriptors(item.track)
            track = self._described[item.track.number]
        if isinstance(item, Value):
            event = _TYPE + varint(COUNTER) + track + _DOUBLE_VALUE + _DOUBLE(item.value)
            yield _event(item.at_unix_ns, event)
        elif isinstance(item, Instant):
            yield self._named(item.at_unix_ns, INSTANT, track, item)
        else:
            yield self._named(item.began_unix_ns, SLICE_BEGIN, track, item)
            yield _event(item.ended_unix_ns, _END + track)

    def _named(self, at_unix_ns: int, kind: int, track: bytes, item: Slice | Instant) -> bytes:
        new: list[bytes] = []
        event = b"".join(
            (
                *(_TYPE, varint(kind), track),
                self._categories.reference(item.category, new),
                self._events.reference(item.name, new),
                *self._annotations(item.arguments, new),
                *(_FLOW + _FIXED64(flow) for flow in item.flows),
            )
        )
        return _event(at_unix_ns, event, nested(_INTERNED_DATA, b"".join(new)) if new else b"")

    def _annotations(self, arguments: Arguments, new: list[bytes]) -> Iterator[bytes]:
        for name, value in arguments.items():
            yield nested(_ANNOTATION, self._arguments.reference(name, new) + _annotation(value))

    def _descriptors(self, track: Track) -> Iterator[bytes]:
        """Those of the groups that it is in, then its own."""
        if track.parent is not None and track.parent.number not in self._described:
            yield from self._descriptors(track.parent)
        number = varint(track.number)
        self._described[track.number] = _TRACK_UUID + number
        fields = [b"\x08", number, nested(b"\x12", track.name.encode("utf-8", "replace"))]
        if track.parent is not None:
            fields += (b"\x28", varint(track.parent.number))
        if track.unit is not None:
            fields.append(nested(b"\x42", nested(b"\x32", track.unit.encode())))
        fields += (b"\x58", varint(_EXPLICIT), b"\x60", varint(track.order))
        yield nested(_PACKET, _SEQUENCE + nested(_TRACK_DESCRIPTOR, b"".join(fields)))


def _clocks(unix_ns: int) -> bytes:
    """The first packet: timestamps are times of day, although the format takes them for times since the machine was started."""
    clocks = (nested(b"\x0a", b"\x08" + varint(clock) + b"\x10" + varint(unix_ns)) for clock in (_BOOTTIME, _REALTIME))
    return nested(_PACKET, _SEQUENCE + _CLEARS_STATE + nested(_CLOCK_SNAPSHOT, b"".join(clocks)))


def _event(unix_ns: int, event: bytes, interned: bytes = b"") -> bytes:
    head = _TIMESTAMP + varint(unix_ns) + _SEQUENCE + _NEEDS_STATE + interned
    return nested(_PACKET, head + nested(_TRACK_EVENT, event))


def _annotation(value: Argument) -> bytes:
    """The value of a DebugAnnotation. A list is one whose members have no names."""
    if isinstance(value, bool):
        return b"\x10" + varint(value)
    if isinstance(value, int):
        return b"\x18" + varint(value)
    if isinstance(value, float):
        return b"\x29" + _DOUBLE(value)
    if isinstance(value, str):
        return nested(b"\x32", value.encode("utf-8", "replace"))
    return b"".join(nested(b"\x62", _annotation(one)) for one in value)
