"""history.recorder: events and windows end up in the file, whatever happens to it, and no caller waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.chains.event import ChainEvent
from exporter.clock import Clock
from exporter.errors import NotPossibleHere
from exporter.history import reader
from exporter.history.recorder import (
    MEMBERSHIPS_MAX,
    QUEUE_FULL,
    QUEUE_MAX,
    TOO_MANY_MEMBERSHIPS,
    TOO_MANY_PROCESSES,
    Recorder,
)
from exporter.history.window_batch import WindowBatch
from exporter.history.writer import Settings
from exporter.own_metrics.store import OwnMetrics
from tests.support.history import a_membership, a_window, an_event
from tests.support.records import STARTED_UNIX_NS, at, own_sample
from tests.support.traced import eventually


def a_batch(*, windows: int = 1, memberships: int = 0, dropped: int = 0) -> WindowBatch:
    """Ten seconds of so many processes."""
    made = [a_window(process=number) for number in range(windows)]
    places = [a_membership(process=number) for number in range(memberships)]
    first = a_window()
    return WindowBatch(first.began_unix_ns, first.ended_unix_ns, made, memberships=places, dropped=dropped)


class Bench:
    """A recorder whose clock stands still."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.own = OwnMetrics()
        clock = Clock(lambda: at(0.0).monotonic_ns, lambda: at(0.0).unix_ns)
        settings = Settings(path, 4 << 20, 3600.0, has_chains=True)
        self.recorder = Recorder(settings, self.own, clock, retry_seconds=0.0)

    def events(self) -> list[ChainEvent]:
        """Events in the file."""
        try:
            with reader.opened(self.path) as history:
                return [one.event for one in history.events(0)]
        except NotPossibleHere:
            return []

    def windows(self) -> int:
        """Number of windows in the file."""
        try:
            with reader.opened(self.path) as history:
                return sum(len(one.windows) for one in history.windows(0))
        except NotPossibleHere:
            return 0

    def dropped(self, reason: str) -> float | None:
        """Windows and events."""
        return own_sample(self.own, "gpustall_exporter_history_dropped_total", reason=reason)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Its recorder is not started yet."""
    made = Bench(tmp_path / "state" / "history.sqlite")
    yield made
    made.recorder.stop()


class TestWriting:
    def test_event_is_written_before_the_window_ends(self, bench: Bench) -> None:
        bench.recorder.start()
        bench.recorder.on_chain_event(an_event())

        eventually(lambda: bench.events() == [an_event()], "it is written")

    def test_last_event_and_the_end_of_the_run_are_written_at_a_stop(self, bench: Bench) -> None:
        bench.recorder.start()
        bench.recorder.on_chain_event(an_event())
        bench.recorder.stop()

        assert bench.events() == [an_event()]
        with reader.opened(bench.path) as history:
            assert history.runs()[0].ended_unix_ns == STARTED_UNIX_NS


class TestWindows:
    def test_windows_are_written(self, bench: Bench) -> None:
        bench.recorder.start()
        bench.recorder.on_windows(a_batch(windows=2))

        eventually(lambda: bench.windows() == 2, "they are written")

    def test_windows_of_too_many_processes_are_counted(self, bench: Bench) -> None:
        """Those of processes beyond the limit."""
        bench.recorder.on_windows(a_batch(dropped=3))

        assert bench.dropped(TOO_MANY_PROCESSES) == 3

    def test_first_memberships_are_kept_and_the_others_counted(self, bench: Bench) -> None:
        bench.recorder.on_windows(a_batch(memberships=MEMBERSHIPS_MAX + 3))
        bench.recorder.start()

        def written() -> int:
            try:
                with reader.opened(bench.path) as history:
                    return sum(1 for _ in history.memberships(0))
            except NotPossibleHere:
                return 0

        eventually(lambda: written() == MEMBERSHIPS_MAX, "the first ones are written")
        assert bench.dropped(TOO_MANY_MEMBERSHIPS) == 3


class TestQueue:
    def test_full_queue_drops_and_counts(self, bench: Bench) -> None:
        """The thread is not started, as if the disk did not respond."""
        for _ in range(QUEUE_MAX + 7):
            bench.recorder.on_chain_event(an_event())

        assert bench.dropped(QUEUE_FULL) == 7

    def test_each_window_that_finds_no_room_is_counted(self, bench: Bench) -> None:
        for _ in range(QUEUE_MAX):
            bench.recorder.on_chain_event(an_event())
        bench.recorder.on_windows(a_batch(windows=5))

        assert bench.dropped(QUEUE_FULL) == 5
