"""An explanation of five minutes of rank 3, and its lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any

from exporter.chains.event import ChainEvent
from exporter.explain import text
from exporter.explain.explanation import Explanation, explain
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.selection import Selection
from exporter.history.window import Window
from exporter.model import Identity
from tests.support.history import NOON, SECOND, a_run, a_window, an_event

NOW_SECONDS = 200.0


def windows_until(seconds: float, began_seconds: float = -100.0, **changes: Any) -> list[Window]:
    ends = range(int(began_seconds) + 10, int(seconds) + 1, 10)
    return [a_window(float(ended), **changes) for ended in ends]


def explained(
    events: Sequence[ChainEvent] = (),
    windows: Sequence[Window] | None = None,
    runs: Sequence[Run] | None = None,
    selection: str = "",
    since_seconds: float = -100.0,
) -> Explanation:
    """At NOW_SECONDS, of five minutes with windows of rank 3."""
    windows = windows_until(NOW_SECONDS) if windows is None else windows
    return explain(
        [a_run()] if runs is None else runs,
        [RecordedEvent(1, event) for event in events],
        [RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window]) for window in windows],
        selection=Selection.of(selection),
        since_unix_ns=NOON + int(since_seconds * SECOND),
        now_unix_ns=NOON + int(NOW_SECONDS * SECOND),
    )


def lines_of(*events: ChainEvent, **known: Any) -> list[str]:
    """Times in UTC."""
    return text.lines(explained(events, **known), UTC)


def of_rank(rank: str, digit: str, **changes: Any) -> ChainEvent:
    return an_event(identity=Identity(node="gpu7", rank=rank), tgid=100 + int(rank), chain_id=digit * 32, **changes)
