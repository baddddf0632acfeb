"""Chains as their recorded events show them: from when to when, and whether they have ended.

In: events of the history or of a recording, and the runs that recorded them. Out: a RecordedChain for each chain.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.history.run import RecordedEvent, Run

_NAMED_MAX = 8
CONFIRMATIONS = (Change.CONFIRMED, Change.REFUTED)


class KnownState(enum.StrEnum):
    """INTERRUPTED: it was open when the exporter stopped, so its end is not known."""

    OPEN = "open"
    RESOLVED = "resolved"
    INTERRUPTED = "interrupted"


class RecordedChain(NamedTuple):
    """events: oldest first, without results of experiments. confirmations: those. run: of the last event.

    known_until_unix_ns: its end, or the last time at which it is known to have been open.
    """

    run: int
    events: tuple[ChainEvent, ...]
    confirmations: tuple[ChainEvent, ...]
    state: KnownState
    known_until_unix_ns: int

    @property
    def last(self) -> ChainEvent:
        return self.events[-1]


def by_chain(events: Iterable[RecordedEvent]) -> dict[str, list[RecordedEvent]]:
    """Id of a chain -> its events; in the order of their first events."""
    found: dict[str, list[RecordedEvent]] = {}
    for one in events:
        found.setdefault(one.event.chain_id, []).append(one)
    return found


def latest_named(chains: Mapping[str, Sequence[RecordedEvent]]) -> str:
    """`6f95a1b2 (lock), 77aa01c3 (irq)`: the last ones, for a person who looks for a chain. chains: as of by_chain()."""
    latest = list(chains.values())[: -_NAMED_MAX - 1 : -1]
    return ", ".join(f"{one.event.chain_id[:8]} ({one.event.cause.value})" for *_, one in latest)


def recorded_chains(
    events: Iterable[RecordedEvent], runs: Mapping[int, Run], live_run: int | None, now_unix_ns: int
) -> Iterator[RecordedChain]:
    """In the order of their first events. A chain of which only results of experiments are left is left out.

    live_run: id of the run that goes on, None if none does.
    """
    for recorded in by_chain(events).values():
        confirmations = tuple(one.event for one in recorded if one.event.change in CONFIRMATIONS)
        others = [one for one in recorded if one.event.change not in CONFIRMATIONS]
        others.sort(key=lambda one: one.event.change is Change.RESOLVED)  # evidence may come after the end
        if others:
            state, until_unix_ns = _state(others[-1], runs, live_run, now_unix_ns)
            yield RecordedChain(others[-1].run, tuple(one.event for one in others), confirmations, state, until_unix_ns)


def _state(
    last: RecordedEvent, runs: Mapping[int, Run], live_run: int | None, now_unix_ns: int
) -> tuple[KnownState, int]:
    run, event = last
    if event.change is Change.RESOLVED:
        return KnownState.RESOLVED, event.began_unix_ns + event.duration_ns
    if run == live_run:
        return KnownState.OPEN, now_unix_ns
    return KnownState.INTERRUPTED, runs[run].seen_unix_ns if run in runs else event.at_unix_ns
