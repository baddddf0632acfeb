"""What was known at a time: no record is later than it.

In: a History; the present, or a time in the past. Out: runs, events and windows as they were known then. A clock that was ahead
and has been set back leaves records of the future: their time is wrong, and they are left out until it has come. But a chain
that is still open is open now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from exporter.chains.chain import Change
from exporter.history.reader import History
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.units import NANOSECONDS

AHEAD_NS: Final = 5 * NANOSECONDS
"""Records may be so much later than now: they may be written while a history is opened."""


class Known(NamedTuple):
    """windows: oldest first. ahead_unix_ns: the time of the latest record, if it lies in the future; else 0."""

    runs: list[Run]
    events: list[RecordedEvent]
    windows: Iterator[RecordedWindows]
    ahead_unix_ns: int = 0


def known_then(
    history: History, since_unix_ns: int, then_unix_ns: int, events: Sequence[RecordedEvent] | None = None
) -> Known:
    """As of a time in the past: what came later is not known yet. events: read already; None: those since then.

    Raises what History raises.
    """
    events = history.events(since_unix_ns) if events is None else events
    return Known(
        [run.as_of(then_unix_ns) for run in history.runs() if run.began_unix_ns <= then_unix_ns],
        [one for one in events if one.event.at_unix_ns <= then_unix_ns],
        _until(history.windows(since_unix_ns), then_unix_ns),
    )


def known_now(
    history: History, since_unix_ns: int, now_unix_ns: int, events: Sequence[RecordedEvent] | None = None
) -> Known:
    """As of the present. events: as of known_then(). Raises what History raises."""
    events = history.events(since_unix_ns) if events is None else events
    runs = history.runs()
    live = runs[-1].id if runs and runs[-1].is_live(now_unix_ns) else None
    latest_unix_ns, until_unix_ns = history.latest_unix_ns(), now_unix_ns + AHEAD_NS
    return Known(
        [run.until(now_unix_ns) for run in runs if run.began_unix_ns <= until_unix_ns or run.id == live],
        _events_until(events, until_unix_ns, now_unix_ns, live),
        _until(history.windows(since_unix_ns), until_unix_ns),
        latest_unix_ns if latest_unix_ns > until_unix_ns else 0,
    )


def _until(windows: Iterator[RecordedWindows], unix_ns: int) -> Iterator[RecordedWindows]:
    return takewhile(lambda one: one.ended_unix_ns <= unix_ns, windows)


def _events_until(
    events: Sequence[RecordedEvent], until_unix_ns: int, now_unix_ns: int, live: int | None
) -> list[RecordedEvent]:
    """live: the run that goes on, whose open chains are kept. One that was resolved in the future is left out as a whole."""
    resolved = [one.event for one in events if one.event.change is Change.RESOLVED]
    over = {event.chain_id for event in resolved}
    gone = {event.chain_id for event in resolved if event.at_unix_ns > until_unix_ns}
    found = []
    for run, event in events:
        if event.chain_id in gone:
            continue
        if event.at_unix_ns <= until_unix_ns:
            found.append(RecordedEvent(run, event))
        elif run == live and event.chain_id not in over:
            began_unix_ns = min(event.began_unix_ns, now_unix_ns)
            found.append(RecordedEvent(run, replace(event, at_unix_ns=now_unix_ns, began_unix_ns=began_unix_ns)))
    return found
