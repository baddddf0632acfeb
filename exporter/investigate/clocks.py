"""How far the clocks of nodes are apart, by the collectives that their ranks enter together.

In: a history of several nodes, and the node of each run. Out: differences to one of the nodes. A collective of one node lies
between two of another one, a window apart, and the time between those is divided evenly: a single difference is off by as much as
steps differ and ranks are late, so the median of many counts.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median
from typing import Final, NamedTuple

from exporter.units import NANOSECONDS, seconds

COLLECTIVES_NEEDED: Final = 6
_APART_NS_MAX: Final = 60 * NANOSECONDS
"""Between two marks of one node: more says little about what lies between."""

_MARKS_MAX: Final = 10_000
"""The last ones of a run and a communicator: more than a day has."""

_RUNS: Final = (
    "select communicator, run from collectives group by communicator, run order by communicator, count(*) desc, run"
)
_MARKS: Final = (
    "select number, at_unix_ns from collectives where run = ? and communicator = ? order by number desc limit ?"
)

_Marks = Sequence[tuple[int, int]]
"""(number, time) of collectives, by number."""


class ClockDifference(NamedTuple):
    """The clock of `node` is ahead of that of `of`; behind if negative. spread_ns: median difference from that.

    collectives: that were compared.
    """

    node: str
    of: str
    ahead_ns: int
    spread_ns: int
    collectives: int


class _Compared(NamedTuple):
    ahead_ns: int
    spread_ns: int
    collectives: int


def clock_differences(merged: sqlite3.Connection, nodes: Mapping[int, str]) -> tuple[ClockDifference, ...]:
    """One for each node that shares a communicator with another one, directly or through others. nodes: run -> node."""
    found: dict[tuple[str, str], _Compared] = {}
    for communicator, rows in groupby(merged.execute(_RUNS).fetchall(), key=itemgetter(0)):
        # Each is compared with the run that has most of them, so that a thousand runs take no million comparisons.
        first, *others = [run for _, run in rows if run in nodes] or [0]
        ours = _marks(merged, first, communicator) if others else ()
        for run in others:
            if nodes[run] != nodes[first]:
                _keep(found, (nodes[first], nodes[run]), _compared(ours, _marks(merged, run, communicator)))
    return tuple(_by_nodes(found))


def _marks(merged: sqlite3.Connection, run: int, communicator: int) -> _Marks:
    return merged.execute(_MARKS, (run, communicator, _MARKS_MAX)).fetchall()[::-1]


def _keep(found: dict[tuple[str, str], _Compared], pair: tuple[str, str], compared: _Compared | None) -> None:
    """The comparison by most collectives, where nodes have several runs or communicators."""
    if compared is None:
        return
    if pair[::-1] in found:
        pair, compared = pair[::-1], compared._replace(ahead_ns=-compared.ahead_ns)
    if pair not in found or found[pair].collectives < compared.collectives:
        found[pair] = compared


def _by_nodes(found: Mapping[tuple[str, str], _Compared]) -> Iterator[ClockDifference]:
    """All nodes of a group that is connected by comparisons, but for its first one, which the others are compared with."""
    neighbours: dict[str, dict[str, _Compared]] = {}
    for (one, other), compared in found.items():
        neighbours.setdefault(one, {})[other] = compared
        neighbours.setdefault(other, {})[one] = compared._replace(ahead_ns=-compared.ahead_ns)
    ahead_ns: dict[str, int] = {}
    for first in sorted(neighbours):
        if first in ahead_ns:
            continue
        ahead_ns[first] = 0
        known = deque([first])
        while known:
            one = known.popleft()
            for other, compared in sorted(neighbours[one].items()):
                if other not in ahead_ns:
                    ahead_ns[other] = ahead_ns[one] + compared.ahead_ns
                    known.append(other)
                    yield ClockDifference(other, first, ahead_ns[other], compared.spread_ns, compared.collectives)


def _compared(ours: _Marks, theirs: _Marks) -> _Compared | None:
    """How far their clock is ahead of ours; None with too few collectives."""
    differences_ns = list(_differences_ns(ours, theirs))
    if len(differences_ns) < COLLECTIVES_NEEDED:
        return None
    ahead_ns = round(median(differences_ns))
    spread_ns = round(median(abs(one_ns - ahead_ns) for one_ns in differences_ns))
    return _Compared(ahead_ns, spread_ns, len(differences_ns))


def _differences_ns(ours: _Marks, theirs: _Marks) -> Iterator[int]:
    for number, at_ns in theirs:
        our_ns = _entered_ns(ours, number)
        if our_ns is not None:
            yield at_ns - our_ns


def _entered_ns(marks: _Marks, number: int) -> int | None:
    """When the node entered a collective by its own clock; None outside of what is known."""
    after = bisect_left(marks, (number, 0))
    if after < len(marks) and marks[after][0] == number:
        return marks[after][1]
    if not 0 < after < len(marks):
        return None
    (first, first_ns), (last, last_ns) = marks[after - 1], marks[after]
    if last_ns - first_ns > _APART_NS_MAX:
        return None
    return first_ns + (last_ns - first_ns) * (number - first) // (last - first)


def lines(differences: Iterable[ClockDifference]) -> Iterator[str]:
    """`clock of gpu7: 1.250 s ahead of that of gpu3, by 312 collectives, give or take 0.040 s`."""
    for one in differences:
        direction = "ahead of" if one.ahead_ns >= 0 else "behind"
        yield (
            f"clock of {one.node}: {seconds(abs(one.ahead_ns)):.3f} s {direction} that of {one.of}, by"
            f" {one.collectives:,} collectives, give or take {seconds(one.spread_ns):.3f} s"
        )
