"""Where a timeline comes from: what a history or a recording holds, in one form.

In: a path and a time span, or a Recording. Out: a TimelineSource, open while the block lasts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from exporter.files.budget import ReadBudget
from exporter.history.as_of import known_now, known_then
from exporter.history.reader import opened
from exporter.history.recorded_chains import RecordedChain, recorded_chains
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.scope import EVERYTHING, Scope
from exporter.pipeline.replay import replaying
from exporter.pipeline.replayed_windows import (
    RUN_ID,
    ReplayedThreads,
    ReplayedWindows,
    SlowCallSpan,
    ThreadSpan,
    recorded_run,
)
from exporter.recording.file import Recording
from exporter.units import NANOSECONDS

_WINDOW_NS: Final = NANOSECONDS  # of a recording, whose ticks are 0.25 s apart

_EFFORT: Final = 8.0
"""Time that may be spent on what is read, compared with reading it: a window becomes a dozen items, and each is written."""


Done = RecordedWindows | ThreadSpan | SlowCallSpan


class TimelineSource(NamedTuple):
    """A time span, and what was recorded in it. done: windows and spans of threads, each in the order of time.

    Slow calls are in the windows of a history, and are spans of their own behind those of a recording.
    """

    since_unix_ns: int
    now_unix_ns: int
    runs: Sequence[Run]
    chains: Sequence[RecordedChain]
    done: Iterator[Done]


@contextmanager
def stored(
    path: Path, since_seconds: float, *, at_unix_ns: int | None = None, scope: Scope = EVERYTHING
) -> Iterator[TimelineSource]:
    """The history at a path, of the time before at_unix_ns, as it was known then; None for now. Raises NotPossibleHere."""
    now_unix_ns = time.time_ns() if at_unix_ns is None else at_unix_ns
    since_unix_ns = max(now_unix_ns - int(since_seconds * NANOSECONDS), 0)
    with opened(path, effort=_EFFORT, scope=scope) as history:
        runs, events, windows, _ = (known_now if at_unix_ns is None else known_then)(
            history, since_unix_ns, now_unix_ns
        )
        live = {run.id for run in runs[-1:] if run.is_live(now_unix_ns)}
        chains = recorded_chains(events, {run.id: run for run in runs}, next(iter(live), None), now_unix_ns)
        yield TimelineSource(
            since_unix_ns,
            now_unix_ns,
            [run for run in runs if run.seen_unix_ns >= since_unix_ns],
            [chain for chain in chains if chain.known_until_unix_ns >= since_unix_ns],
            windows,
        )


@contextmanager
def recorded(recording: Recording, budget: ReadBudget | None = None) -> Iterator[TimelineSource]:
    """A recording. Its chains are those that were reported live, with their stacks. Raises ValueError for bad ticks."""
    taken_ns = recording.taken_at.monotonic_ns
    with replaying(recording, budget) as replayed:
        began_ns = next((tick.now_ns for tick in recording.ticks()), taken_ns)
        run = recorded_run(recording, began_ns, taken_ns)
        events = (RecordedEvent(RUN_ID, event) for event in recording.events)
        chains = list(recorded_chains(events, {RUN_ID: run}, RUN_ID, run.seen_unix_ns))

        def done() -> Iterator[Done]:
            windows, threads = ReplayedWindows(recording, replayed), ReplayedThreads(recording, replayed)
            for _ in replayed.ticks():
                yield from threads.take()
                if windows.length_ns >= _WINDOW_NS:
                    yield windows.take()
            if windows.length_ns:
                yield windows.take()
            yield from windows.slow_calls()

        yield TimelineSource(run.began_unix_ns, run.seen_unix_ns, [run], chains, done())
