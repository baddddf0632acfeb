"""Writes a timeline as JSON in Chrome's trace format, for viewers that do not read Perfetto's: nodes and workloads are processes.

In: items. Out: one JSON document, in pieces. Times are whole microseconds since 1970: a number of JSON is exact up to 2**53.
Source: "Trace Event Format", linked from chromium.org's page about tracing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from exporter.timeline.item import Instant, Item, Slice, Track

_PIECE_EVENTS: Final = 256
_MICROSECOND: Final = 1000


def encoded(items: Iterable[Item]) -> Iterator[bytes]:
    """Nothing for a timeline without items."""
    described: set[tuple[str, int]] = set()
    separator, waiting = '{"displayTimeUnit":"ms","traceEvents":[\n', []
    for item in items:
        waiting += [*_descriptions(item.track, described), _event(item)]
        if len(waiting) >= _PIECE_EVENTS:
            yield _written(waiting, separator)
            separator, waiting = ",\n", []
    if waiting:
        yield _written(waiting, separator)
    if described:
        yield b"\n]}\n"


def _written(events: list[dict[str, Any]], separator: str) -> bytes:
    return (separator + ",\n".join(map(_json, events))).encode()


def _json(event: dict[str, Any]) -> str:
    """Without the escape of a backslash by another one: Perfetto v52 takes the quote behind it for a part of the text."""
    return json.dumps(event, separators=(",", ":")).replace("\\\\", "\\u005c")


def _event(item: Item) -> dict[str, Any]:
    """A complete event, an instant of its track, or a counter."""
    place = {"pid": _process(item.track).number, "tid": item.track.number}
    if isinstance(item, Slice):
        began, ended = item.began_unix_ns // _MICROSECOND, item.ended_unix_ns // _MICROSECOND
        shown = {"ph": "X", "cat": item.category, "name": item.name, "ts": began, "dur": ended - began}
        return shown | place | {"args": item.arguments}
    at = {"ts": item.at_unix_ns // _MICROSECOND}
    if isinstance(item, Instant):
        shown = {"ph": "i", "s": "t", "cat": item.category, "name": item.name}
        return shown | at | place | {"args": item.arguments}
    return {"ph": "C", "name": item.track.name} | at | place | {"args": {item.track.unit: item.value}}


def _descriptions(track: Track, described: set[tuple[str, int]]) -> Iterator[dict[str, Any]]:
    """The names of a track and its process, if they have none yet."""
    process = _process(track)
    for one, kind in ((process, "process"), (track, "thread")):
        if (kind, one.number) in described or one.unit is not None:
            continue
        described.add((kind, one.number))
        place = {"ph": "M", "pid": process.number, "tid": one.number}
        yield {"name": f"{kind}_name"} | place | {"args": {"name": _name(one)}}
        yield {"name": f"{kind}_sort_index"} | place | {"args": {"sort_index": one.number}}


def _process(track: Track) -> Track:
    """The nearest node or workload."""
    while not track.is_process and track.parent is not None:
        track = track.parent
    return track


def _name(track: Track) -> str:
    """`node gpu7, rank 3 (pid 100)` of a process, `lost time: lock` of a track in one."""
    names = [track.name]
    while track.parent is not None and track.parent.is_process == track.is_process:
        track = track.parent
        names.append(track.name)
    return (", " if track.is_process else ": ").join(reversed(names))
