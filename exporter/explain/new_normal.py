"""Jobs whose chain ended without a recovery, and whose steps still take longer than before it: a new normal.

In: chain events, what their processes did. Out: a NewNormal for each such process, measured in its last windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from exporter.chains.chain import End
from exporter.chains.event import ChainEvent
from exporter.explain.sums import RATIO_MIN, ProcessSum
from exporter.history.run import RecordedEvent
from exporter.units import NANOSECONDS

NEW_FOR_NS: Final = 6 * 3600 * NANOSECONDS
"""After so long it is what the job is like."""
_ALIVE_NS: Final = 25 * NANOSECONDS  # a process without a window for so long has ended


class NewNormal(NamedTuple):
    """event: the end of the chain. step_ns: mean length of a step now; before: event.usual_step_ns."""

    process: ProcessSum
    event: ChainEvent
    step_ns: float

    @property
    def ratio(self) -> float:
        """2.0 where steps take twice as long as before."""
        return self.step_ns / self.event.usual_step_ns


def new_normals(
    events: Iterable[RecordedEvent], processes: Sequence[ProcessSum], now_unix_ns: int
) -> tuple[NewNormal, ...]:
    """The slowest first. events: of the last NEW_FOR_NS, oldest first."""
    last = {
        (run, event.tgid): event
        for run, event in events
        if event.end is End.CHANGED and event.usual_step_ns and event.tgid
    }
    found = []
    for process in processes:
        event = last.get((process.run, process.labels.tgid))
        step_ns = process.latest_step_ns
        if event is None or step_ns is None or now_unix_ns - process.ended_unix_ns > _ALIVE_NS:
            continue
        if now_unix_ns - event.at_unix_ns <= NEW_FOR_NS and step_ns >= RATIO_MIN * event.usual_step_ns:
            found.append(NewNormal(process, event, step_ns))
    return tuple(sorted(found, key=lambda one: -one.ratio))
