"""The items of a Perfetto trace that a node has sent, in a group of tracks of that node.

In: bytes as perfetto.py writes them, from a node that is not trusted. Out: items, or Untrusted. Times are as its clock has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final, NamedTuple

from exporter.text import untrusted
from exporter.text.untrusted import Untrusted
from exporter.timeline import perfetto, wire
from exporter.timeline.item import Argument, Arguments, Instant, Item, Slice, Track, Value
from exporter.timeline.tracks import TRACKS_MAX, TooManyTracks
from exporter.timeline.wire import WireValue, fields, message, number

_PACKET: Final = 1  # Trace
_TIMESTAMP, _TRACK_EVENT, _INTERNED_DATA, _TRACK_DESCRIPTOR = 8, 11, 12, 60  # TracePacket
_UUID, _NAME, _PARENT, _COUNTER, _ORDER = 1, 2, 5, 8, 12  # TrackDescriptor
_UNIT: Final = 6  # CounterDescriptor
_IID, _TEXT = 1, 2  # of an interned name
_CATEGORY_IID, _ANNOTATION, _TYPE, _NAME_IID, _EVENT_TRACK = 3, 4, 9, 10, 11  # TrackEvent
_CATEGORY, _EVENT_NAME, _DOUBLE_VALUE = 22, 23, 44
_BOOL, _UINT, _DOUBLE, _STRING, _ANNOTATION_NAME, _LIST = 2, 3, 5, 6, 10, 12  # DebugAnnotation
_CATEGORIES, _EVENTS, _ARGUMENTS = 1, 2, 3  # InternedData

_INTERNED_MAX: Final = 4096
_ARGUMENTS_MAX: Final = 64
_LIST_MAX: Final = 1024
_UNIX_NS_MAX: Final = 1 << 63
_NODE: Final = "node"


class NodeTrace(NamedTuple):
    """name: of the node in the fleet. clock: how far its clock is off, for people."""

    name: str
    body: bytearray
    clock: str

    @property
    def title(self) -> str:
        return f"{_NODE} {self.name} ({self.clock})"


def has_items(trace: NodeTrace) -> bool:
    """Raises Untrusted unless all of it can be read."""
    found = False
    for _ in _Reader(trace, Track(0, trace.title), count(1).__next__).items():
        found = True
    return found


def merged(traces: Iterable[NodeTrace]) -> Iterator[Item]:
    """Items of all nodes, each below a track `node NAME (its clock)`. Raises TooManyTracks."""
    numbers = count(1)

    def next_number() -> int:
        found = next(numbers)
        if found > TRACKS_MAX:
            raise TooManyTracks(
                f"a timeline of more than {TRACKS_MAX:,} tracks cannot be shown",
                remedy="name fewer nodes, or use --workload or a smaller --since",
            )
        return found

    for order, trace in enumerate(traces):
        root = Track(next_number(), trace.title, order=order, is_process=True)
        yield from _Reader(trace, root, next_number).items()


class _Known(NamedTuple):
    """depth: 0 for a track of the node without a parent."""

    track: Track
    depth: int


class _Reader:
    """root: gets all tracks. next_number: for a new track."""

    def __init__(self, trace: NodeTrace, root: Track, next_number: Callable[[], int]) -> None:
        self._trace = trace
        self._root = root
        self._next_number = next_number
        self._tracks: dict[int, _Known] = {}
        self._names: dict[int, dict[int, str]] = {_CATEGORIES: {}, _EVENTS: {}, _ARGUMENTS: {}}
        self._begun: Slice | None = None

    def items(self) -> Iterator[Item]:
        for field, value in fields(memoryview(self._trace.body)):
            if field != _PACKET:
                raise Untrusted("more than packets")
            item = self._packet(message(value))
            if item is not None:
                yield item
        if self._begun is not None:
            raise Untrusted("the trace ends within a slice")

    def _packet(self, raw: memoryview) -> Item | None:
        known = dict(fields(raw))
        if _TRACK_DESCRIPTOR in known:
            self._describe(message(known[_TRACK_DESCRIPTOR]))
        if _INTERNED_DATA in known:
            self._intern(message(known[_INTERNED_DATA]))
        if _TRACK_EVENT not in known:
            return None
        at_unix_ns = number(known.get(_TIMESTAMP, 0))
        if at_unix_ns > _UNIX_NS_MAX:
            raise Untrusted("a time that there is none of")
        return self._event(at_unix_ns, message(known[_TRACK_EVENT]))

    # ---- tracks and names

    def _describe(self, raw: memoryview) -> None:
        known = dict(fields(raw))
        uuid, name = number(known.get(_UUID, 0)), _text(known.get(_NAME, b""))
        if uuid in self._tracks or len(self._tracks) >= TRACKS_MAX:
            raise Untrusted("a track is described twice, or there are too many")
        parent = self._track(number(known[_PARENT])) if _PARENT in known else None
        unit = None
        if _COUNTER in known:
            unit = _text(dict(fields(message(known[_COUNTER]))).get(_UNIT, b""))
        if parent is None and unit is None and name in (_NODE, f"{_NODE} {self._trace.name}"):
            self._tracks[uuid] = _Known(self._root, 0)  # the group of the node itself
            return
        depth = 0 if parent is None else parent.depth + 1
        if depth > untrusted.DEPTH_MAX:
            raise Untrusted("too many groups of tracks within each other")
        above = self._root if parent is None else parent.track
        # Groups of nodes and of workloads are processes: those at the top, and those below them.
        is_process = unit is None and depth <= 1
        order = number(known.get(_ORDER, 0))
        self._tracks[uuid] = _Known(Track(self._next_number(), name, above, unit, order, is_process), depth)

    def _track(self, uuid: int) -> _Known:
        if uuid not in self._tracks:
            raise Untrusted("a track is not described")
        return self._tracks[uuid]

    def _intern(self, raw: memoryview) -> None:
        for kind, value in fields(raw):
            known = dict(fields(message(value)))
            names = self._names.get(kind)
            if names is None or len(names) >= _INTERNED_MAX:
                raise Untrusted("names of a kind that there is none of, or too many")
            names[number(known.get(_IID, 0))] = _text(known.get(_TEXT, b""))

    def _name(self, kind: int, by_number: WireValue | None, by_text: WireValue | None) -> str:
        if by_number is None:
            return _text(b"" if by_text is None else by_text)
        found = self._names[kind].get(number(by_number))
        if found is None:
            raise Untrusted("a name is not known")
        return found

    # ---- events

    def _event(self, at_unix_ns: int, raw: memoryview) -> Item | None:
        found = list(fields(raw))
        known = dict(found)
        track = self._track(number(known.get(_EVENT_TRACK, 0))).track
        kind = number(known.get(_TYPE, 0))
        if (kind == perfetto.SLICE_END) != (self._begun is not None):
            raise Untrusted("a slice that does not end at once")
        if kind == perfetto.COUNTER:
            return Value(track, at_unix_ns, untrusted.finite(wire.double(known.get(_DOUBLE_VALUE, 0))))
        if kind == perfetto.SLICE_END and self._begun is not None:
            begun, self._begun = self._begun, None
            if begun.track is not track:
                raise Untrusted("a slice ends on another track")
            return begun._replace(ended_unix_ns=max(at_unix_ns, begun.began_unix_ns))
        category = self._name(_CATEGORIES, known.get(_CATEGORY_IID), known.get(_CATEGORY))
        name = self._name(_EVENTS, known.get(_NAME_IID), known.get(_EVENT_NAME))
        arguments = self._arguments([message(value) for field, value in found if field == _ANNOTATION])
        if kind == perfetto.INSTANT:
            return Instant(track, category, name, at_unix_ns, arguments)
        if kind != perfetto.SLICE_BEGIN:
            raise Untrusted("an event of a type that there is none of")
        self._begun = Slice(track, category, name, at_unix_ns, at_unix_ns, arguments)
        return None

    def _arguments(self, annotations: list[memoryview]) -> Arguments:
        if len(annotations) > _ARGUMENTS_MAX:
            raise Untrusted("too many arguments")
        found: dict[str, Argument] = {}
        for raw in annotations:
            parts = list(fields(raw))
            known = dict(parts)
            name = self._name(_ARGUMENTS, known.get(_IID), known.get(_ANNOTATION_NAME))
            found[name] = _argument(parts)
        return found


def _argument(parts: list[tuple[int, WireValue]]) -> Argument:
    known = dict(parts)
    if _BOOL in known:
        return bool(number(known[_BOOL]))
    if _UINT in known:
        return number(known[_UINT])
    if _DOUBLE in known:
        return untrusted.finite(wire.double(known[_DOUBLE]))
    if _STRING in known:
        return _text(known[_STRING])
    members = [message(value) for field, value in parts if field == _LIST]
    if len(members) > _LIST_MAX:
        raise Untrusted("a list is too long")
    return tuple(_text(dict(fields(one)).get(_STRING, b"")) for one in members)


def _text(value: WireValue | bytes) -> str:
    raw = value if isinstance(value, bytes) else message(value)
    return untrusted.text(bytes(raw).decode("utf-8", "replace"), untrusted.LINE_CHARACTERS)
