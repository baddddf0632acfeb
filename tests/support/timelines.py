"""Sources of timelines made by hand, and the items that become of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.chains.event import ChainEvent
from exporter.history.recorded_chains import recorded_chains
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.selection import Selection
from exporter.history.window import Window
from exporter.pipeline.replayed_windows import SlowCallSpan, ThreadSpan
from exporter.timeline.item import Instant, Item, Slice, Value
from exporter.timeline.source import TimelineSource
from exporter.timeline.timeline import Timeline
from tests.support.history import NOON, SECOND, a_run

NOW_UNIX_NS = NOON + 200 * SECOND


def at(seconds: float) -> int:
    """That long after NOON."""
    return NOON + round(seconds * SECOND)


def a_source(
    windows: Iterable[Window] = (),
    events: Sequence[ChainEvent] = (),
    threads: Sequence[ThreadSpan | SlowCallSpan] = (),
    *,
    runs: Sequence[Run] | None = None,
    since_seconds: float = -600,
) -> TimelineSource:
    """What run 1 recorded until NOW_UNIX_NS."""
    runs = [a_run()] if runs is None else runs
    by_id = {run.id: run for run in runs}
    chains = list(recorded_chains([RecordedEvent(1, one) for one in events], by_id, 1, NOW_UNIX_NS))
    done = [RecordedWindows(1, one.began_unix_ns, one.ended_unix_ns, [one]) for one in windows]
    return TimelineSource(at(since_seconds), NOW_UNIX_NS, runs, chains, iter([*done, *threads]))


def items_of(source: TimelineSource, workload: str = "") -> list[Item]:
    return list(Timeline(source, Selection.of(workload)).items())


def slices(items: Iterable[Item], category: str) -> list[Slice]:
    return [one for one in items if isinstance(one, Slice) and one.category == category]


def instants(items: Iterable[Item], category: str) -> list[Instant]:
    return [one for one in items if isinstance(one, Instant) and one.category == category]


def values(items: Iterable[Item], track: str) -> list[tuple[float, float]]:
    """Seconds after NOON and value, of the counters of this name."""
    return [
        ((one.at_unix_ns - NOON) / SECOND, one.value)
        for one in items
        if isinstance(one, Value) and one.track.name == track
    ]
