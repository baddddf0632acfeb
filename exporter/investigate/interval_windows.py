"""The windows of a span, added up to one window for each process and interval.

In: intervals as the file holds them, oldest first. Out: windows, an interval after the other. A day takes seconds to decode, so
children decode parts of it, as many at a time as there are CPUs.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from exporter.files.budget import ReadBudget, Unfinished
from exporter.history.packing import unpacked_documents
from exporter.history.run import PackedWindows
from exporter.history.window import StackOf, Window, no_stacks
from exporter.history.window_sum import Part, WindowSum
from exporter.investigate.child import ChildBounds, ChildFailed, started
from exporter.text import untrusted

NAMES_MAX: Final = 300_000
"""In all sums at a time. The windows of a full node have a hundred names for each of 256 processes."""

_PART_BYTES, _PART_INTERVALS = 1 << 20, 256
_CHILD_SECONDS: Final = 60.0
_CHILD_BYTES: Final = 96 << 20
_MALFORMED: Final = (ValueError, TypeError, LookupError)


class TooMuch(Exception):
    """More processes, intervals and names than can be added up."""


class Detail(NamedTuple):
    """resolution_ns: length of an interval, None for the whole span. parts: what is added up beside the rest."""

    resolution_ns: int | None
    parts: frozenset[Part]


class IntervalWindow(NamedTuple):
    """run: of the exporter. covered_ns: total length of the windows that were added up."""

    run: int
    covered_ns: int
    window: Window


_EXPECTED: Final = (ValueError, Unfinished, MemoryError, TooMuch)

_Partial = tuple[int, int, int, int, Any]
"""Run, begin, end, covered_ns, and the document of a window or of a sum."""


def interval_windows(
    packed: Iterable[PackedWindows], detail: Detail, stack_of: StackOf = no_stacks
) -> Iterator[IntervalWindow]:
    """stack_of: for numbers of stacks, called in this process. Raises ValueError, Unfinished, MemoryError or TooMuch."""
    sums = _Sums(detail, stack_of)
    for one in _partial_sums(iter(packed), detail):
        yield from sums.completed_before(one)
        sums.add(one)
    yield from sums.windows()


class _Sums:
    def __init__(self, detail: Detail, stack_of: StackOf = no_stacks) -> None:
        self._detail = detail
        self._stack_of = stack_of
        self._sums: dict[tuple[int, int, Any], WindowSum] = {}
        self._names = 0
        self._interval = 0

    def add(self, one: _Partial) -> None:
        run, began_unix_ns, ended_unix_ns, covered_ns, document = one
        try:
            key = self._interval_of(ended_unix_ns), run, document[0]
            known = self._sums.get(key)
            if known is None:
                known = self._sums[key] = WindowSum(document[0], began_unix_ns)
                self._names += 1
            names = known.names
            known.add(document, ended_unix_ns, covered_ns, self._detail.parts)
        except _MALFORMED as error:
            raise untrusted.Untrusted(f"not a window: {error}") from None
        self._names += known.names - names
        if self._names > NAMES_MAX:
            raise TooMuch

    def completed_before(self, one: _Partial) -> Iterator[IntervalWindow]:
        """The windows of the interval before that of the next one, if it is another."""
        interval = self._interval_of(one[2])
        if interval != self._interval:
            yield from self.windows()
            self._sums, self._names, self._interval = {}, 0, interval

    def windows(self) -> Iterator[IntervalWindow]:
        for (_, run, _), one in self._sums.items():
            yield IntervalWindow(run, one.covered_ns, one.to_window(self._stack_of))

    def partial_sums(self) -> Iterator[_Partial]:
        for (_, run, _), one in self._sums.items():
            yield run, one.began_unix_ns, one.ended_unix_ns, one.covered_ns, one.to_document()

    def _interval_of(self, ended_unix_ns: int) -> int:
        """A window belongs to the interval in which it ends."""
        resolution_ns = self._detail.resolution_ns
        return (ended_unix_ns - 1) // resolution_ns if resolution_ns else 0


def _partial_sums(packed: Iterator[PackedWindows], detail: Detail) -> Iterator[_Partial]:
    parts = _parts(packed)
    first = list(islice(parts, 2))
    parts, processors = chain(first, parts), len(os.sched_getaffinity(0))
    if len(first) < 2 or processors < 2:
        for part in parts:
            yield from _decoded(part, detail)
        return
    running: deque[Iterator[list[_Partial]]] = deque()
    for part in parts:
        if len(running) == processors:
            yield from chain.from_iterable(running.popleft())
        running.append(_decoded_by_child(part, detail))
        next(running[-1])
    while running:
        yield from chain.from_iterable(running.popleft())


def _parts(packed: Iterator[PackedWindows]) -> Iterator[list[PackedWindows]]:
    part: list[PackedWindows] = []
    size_bytes = 0
    for one in packed:
        part.append(one)
        size_bytes += len(one.blob) if isinstance(one.blob, bytes) else 0
        if size_bytes >= _PART_BYTES or len(part) == _PART_INTERVALS:
            yield part
            part, size_bytes = [], 0
    if part:
        yield part


def _decoded(part: list[PackedWindows], detail: Detail) -> Iterator[_Partial]:
    budget = ReadBudget.for_size(sum(len(one.blob) for one in part if isinstance(one.blob, bytes)))
    sums = _Sums(detail)
    for run, began_unix_ns, ended_unix_ns, blob in part:
        budget.check()
        for document in unpacked_documents(blob):
            sums.add((run, began_unix_ns, ended_unix_ns, ended_unix_ns - began_unix_ns, document))
    return sums.partial_sums()


def _decoded_by_child(part: list[PackedWindows], detail: Detail) -> Iterator[list[_Partial]]:
    """Nothing first, when the child has been started."""

    def work() -> Iterator[bytes]:
        yield json.dumps([*_decoded(part, detail)]).encode()

    with started(work, ChildBounds(_CHILD_SECONDS, _CHILD_BYTES, _EXPECTED)) as child:
        yield []
        try:
            for content in child.contents():
                yield json.loads(content)
        except ChildFailed as failed:
            raise _error_of(failed) from None


def _error_of(failed: ChildFailed) -> Exception:
    match failed.kind:
        case TooMuch.__name__:
            return TooMuch()
        case Unfinished.__name__ | ChildFailed.LATE:
            return Unfinished(str(failed) or f"it took more than {_CHILD_SECONDS:.0f} s")
        case MemoryError.__name__ | ChildFailed.KILLED:
            return MemoryError("not enough memory")
    return ValueError(str(failed))
