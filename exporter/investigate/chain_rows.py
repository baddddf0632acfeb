"""Chains, their events and runs as rows of the views, in the order of their columns. Source: exporter.investigate.schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from exporter.chains.event import ChainEvent
from exporter.history.recorded_chains import KnownState, RecordedChain
from exporter.history.run import RecordedEvent, Run
from exporter.model import Identity
from exporter.units import seconds

Row = tuple[Any, ...]


def chain_rows(chains: Iterable[RecordedChain]) -> Iterator[Row]:
    """Those that are not resolved first, each kind by severity and share of lost time."""
    for chain in sorted(chains, key=_badness):
        event = chain.last
        yield (
            *_chain(chain.run, event),
            chain.state.value,
            seconds(event.began_unix_ns),
            seconds(chain.known_until_unix_ns),
            seconds(chain.known_until_unix_ns - event.began_unix_ns),
            event.end.value if event.end else "",
            *_figures(event),
            seconds(event.usual_step_ns) if event.usual_step_ns else None,
            int(event.is_chronic),
            event.cgroup,
            event.remedy,
            chain.confirmations[-1].change.value if chain.confirmations else "",
        )


def _badness(chain: RecordedChain) -> tuple[object, ...]:
    event = chain.last
    return chain.state is KnownState.RESOLVED, -event.severity, -event.lost_share, -event.began_unix_ns


def event_rows(events: Iterable[RecordedEvent]) -> Iterator[Row]:
    for run, event in events:
        yield (
            *_chain(run, event),
            event.change.value,
            seconds(event.at_unix_ns),
            seconds(event.duration_ns),
            *_figures(event),
        )


def stack_rows(events: Iterable[RecordedEvent]) -> Iterator[Row]:
    for run, event in events:
        for number, line in enumerate(event.evidence, 1):
            yield (*_chain(run, event), seconds(event.at_unix_ns), number, line)


def run_rows(runs: Sequence[Run], now_unix_ns: int) -> Iterator[Row]:
    for run in runs:
        yield (
            run.id,
            run.version,
            seconds(run.began_unix_ns),
            seconds(run.seen_unix_ns),
            None if run.ended_unix_ns is None else seconds(run.ended_unix_ns),
            int(run is runs[-1] and run.is_live(now_unix_ns)),
            int(run.has_chains),
            run.window_seconds,
        )


def _chain(run: int, event: ChainEvent) -> Row:
    labels = (event.identity or Identity()).values()
    return (
        *(event.chain_id, run, *labels, event.tgid),
        *(event.cause.value, event.effect.value, event.severity.name.lower()),
    )


def _figures(event: ChainEvent) -> Row:
    return (
        event.lost_share,
        seconds(event.lost_ns),
        event.contribution,
        event.slowdown,
        event.culprit,
        event.culprit_tgids[0] if event.culprit_tgids else None,
        event.peer,
        event.detail,
    )
