"""A log record `gpustall.window` -> the row of a window. docs/cluster.md has the attributes. Unknown ones are ignored.

Raises Untrusted for values that are missing, of another type, or beyond their bounds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from exporter.cluster.labels import INT64_MAX, labels_of, pid_of
from exporter.cluster.plain_records import Attributes, PlainRecord
from exporter.cluster.records import WindowRow
from exporter.text import untrusted
from exporter.text.untrusted import Untrusted
from exporter.units import SLOTS

EVENT_NAME: Final = "gpustall.window"
NAMES_MAX: Final = 64
"""Causes, culprits, states, communicators or operations of one window."""
RANKS_MAX: Final = 1 << 20
_ID: Final = re.compile(r"([0-9a-f]{16})-([0-9]{1,18})-([0-9]{1,19})")
_HASH: Final = re.compile(r"[0-9a-f]{16}")


class WindowId(NamedTuple):
    """run: 16 hexadecimal digits of a run of the exporter. process: its number in the run."""

    run: str
    process: int
    began_unix_ns: int

    @classmethod
    def parsed(cls, value: Any) -> WindowId:
        found = _ID.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise Untrusted("gpustall.window.id is not RUN-PROCESS-BEGAN")
        return cls(found[1], int(found[2]), untrusted.count(int(found[3]), INT64_MAX))

    @property
    def process_key(self) -> str:
        """The job of a process that shares no communicator."""
        return f"{self.run}-{self.process}"


def window_row(record: PlainRecord) -> WindowRow:
    known = record.attributes
    window_id = WindowId.parsed(known.get("gpustall.window.id"))
    first, counts = _buckets(known.get("gpustall.step.buckets"))
    lost = _named_seconds(known.get("gpustall.lost"))
    states = _named_seconds(known.get("gpustall.thread_time"))
    culprits = [
        (_name(one, "cause"), _name(one, "culprit"), _amount(one.get("lost", 0.0)))
        for one in _entries(known.get("gpustall.culprits"))
    ]
    communicators = [_communicator(one) for one in _entries(known.get("gpustall.communicators"))]
    calls = [_calls(one) for one in _entries(known.get("gpustall.calls"))]
    return WindowRow._make(
        (
            *window_id,
            untrusted.count(record.time_unix_ns, INT64_MAX),
            *labels_of(known, record.resource),
            pid_of(known),
            untrusted.text(known.get("process.command", "")),
            _job(communicators) or window_id.process_key,
            _amount(known.get("gpustall.window.duration", 0.0)),
            untrusted.count(known.get("gpustall.steps", 0), INT64_MAX),
            _amount(known.get("gpustall.step.time", 0.0)),
            first,
            counts,
            *lost,
            *_columns(culprits, 3),
            *states,
            *_columns(communicators, 5),
            *_columns(calls, 6),
            None if "gpustall.overhead" not in known else _amount(known["gpustall.overhead"]),
        )
    )


def _job(communicators: Sequence[tuple[Any, ...]]) -> str:
    """Hash of the communicator with most ranks, the first of equals; "" without one."""
    return str(max(communicators, key=lambda one: int(one[2]), default=("",))[0])


def _columns(entries: Sequence[tuple[Any, ...]], width: int) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(*entries, strict=True)) if entries else ((),) * width


def _entries(value: Any) -> Sequence[Attributes]:
    return [untrusted.mapping(one) for one in untrusted.sequence(value, NAMES_MAX)] if value is not None else ()


def _named_seconds(value: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    if value is None:
        return (), ()
    known = untrusted.mapping(value, NAMES_MAX)
    return tuple(map(untrusted.text, known)), tuple(untrusted.amounts(known.values()))


def _buckets(value: Any) -> tuple[int, tuple[int, ...]]:
    if value is None:
        return 0, ()
    known = untrusted.mapping(value)
    counts = untrusted.counts(known.get("counts", ()), SLOTS)
    if any(one > INT64_MAX for one in counts):
        raise Untrusted("a count of steps is too large")
    return untrusted.count(known.get("first", 0), SLOTS - len(counts)), counts


def _communicator(one: Attributes) -> tuple[str, int, int, int, float | None]:
    found = one.get("hash")
    if not isinstance(found, str) or not _HASH.fullmatch(found):
        raise Untrusted("the hash of a communicator is not 16 hexadecimal digits")
    ranks = untrusted.count(one.get("ranks", 0), RANKS_MAX)
    return (
        found,
        untrusted.count(one.get("rank", 0), RANKS_MAX),
        ranks,
        untrusted.count(one.get("operations", 0), INT64_MAX),
        None if "lag" not in one else _amount(one["lag"]),
    )


def _calls(one: Attributes) -> tuple[str, str, int, int, int, float]:
    """Without `timed`, all calls were timed."""
    calls = untrusted.count(one.get("calls", 0), INT64_MAX)
    return (
        _name(one, "api"),
        _name(one, "operation"),
        calls,
        untrusted.count(one.get("errors", 0), INT64_MAX),
        untrusted.count(one.get("timed", calls), INT64_MAX),
        _amount(one.get("time", 0.0)),
    )


def _name(one: Attributes, name: str) -> str:
    return untrusted.text(one.get(name, ""))


def _amount(value: Any) -> float:
    (found,) = untrusted.amounts((value,))
    return found
