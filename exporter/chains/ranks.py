"""Finds the rank that others wait for, and the one that never enters a collective, by the order of arrival on this node.

In: the Collectives of every process. Out: nanoseconds waited for each rank, and the ranks that hang a communicator.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from exporter.chains.span import Collective, Span


class Missing(NamedTuple):
    """A rank that has not entered a collective in which the others of its node wait. since_ns: the last arrival of all.

    communicator: its hash.
    """

    process: int
    rank: int
    since_ns: int
    communicator: int = 0

    def is_awaited_by(self, process: int, communicators: Container[int]) -> bool:
        """Whether a process of these communicators is among the others."""
        return process != self.process and self.communicator in communicators


class _Arrivals(NamedTuple):
    """of: collectives that each process has entered. since_ns: when the last of them was entered."""

    of: Mapping[int, int]
    since_ns: int


class Communicators:
    """All communicators of a node, by hash."""

    def __init__(self) -> None:
        self._arrivals: dict[int, _Arrivals] = {}

    def update(self, collectives: Mapping[int, Mapping[int, Collective]], now_ns: int) -> list[Missing]:
        """collectives: process -> communicator's hash -> its place there. Returns missing ranks, however short the time."""
        members: dict[int, dict[int, Collective]] = {}
        for process, of_process in collectives.items():
            for number, one in of_process.items():
                members.setdefault(number, {})[process] = one
        before, self._arrivals = self._arrivals, {}
        missing = []
        for number, of_communicator in members.items():
            arrived = {process: one.arrived for process, one in of_communicator.items()}
            known = before.get(number)
            since_ns = known.since_ns if known is not None and known.of == arrived else now_ns
            self._arrivals[number] = _Arrivals(arrived, since_ns)
            last, first = min(arrived.values()), max(arrived.values())
            if last < first:
                late = [process for process, count in arrived.items() if count == last]
                missing += [Missing(process, of_communicator[process].rank, since_ns, number) for process in late]
        return missing


def waited_ns(span: Span, others: Iterable[Span]) -> dict[str, int]:
    """Rank -> how much longer a process waited for it. others: the same span of the node's other processes."""
    own = span.now.collectives
    waited: dict[str, int] = {}
    for other in others:
        for number, late in other.now.collectives.items():
            if number not in own:
                continue
            lag_ns = late.lag_ns - _lag_ns(other, number) - (own[number].lag_ns - _lag_ns(span, number))
            if lag_ns > 0:
                rank = str(late.rank)
                waited[rank] = waited.get(rank, 0) + lag_ns
    return waited


def _lag_ns(span: Span, number: int) -> int:
    known = span.then.collectives.get(number)
    return known.lag_ns if known is not None else 0
