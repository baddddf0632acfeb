"""history.recorder: events and windows end up in the file, whatever happens to it, and no caller waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import catalog
from exporter.chains.event import ChainEvent
from exporter.clock import Clock
from exporter.errors import NotPossibleHere
from exporter.history import reader
from exporter.history.recorder import QUEUE_FULL, QUEUE_MAX, Recorder
from exporter.history.windowing import ProcessTotals
from exporter.history.writer import Settings
from exporter.own_metrics.store import OwnMetrics
from exporter.totals import Series
from tests.support.history import SECOND, an_event, process_labels
from tests.support.records import STARTED_UNIX_NS, at, own_sample
from tests.support.traced import eventually

CALLS = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))


class Bench:
    """A recorder whose clock stands still. readings: how often it has read the totals without a scrape."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_seconds = 0.0
        self.readings = 0
        self.own = OwnMetrics()
        clock = Clock(lambda: at(self.now_seconds).monotonic_ns, lambda: at(self.now_seconds).unix_ns)
        settings = Settings(path, 4 << 20, 3600.0, has_chains=True)
        self.recorder = Recorder(settings, self.own, clock, retry_seconds=0.0)

    def read_totals(self) -> None:
        self.readings += 1
        self.scrape()

    def scrape(self) -> None:
        totals = ProcessTotals(at(self.now_seconds), {1: {CALLS: 1 + int(self.now_seconds)}}, {1: process_labels()}, {})
        if self.recorder.is_due(totals.at):
            self.recorder.on_totals(totals)

    def events(self) -> list[ChainEvent]:
        """Events in the file."""
        try:
            with reader.opened(self.path) as history:
                return [one.event for one in history.events(0)]
        except NotPossibleHere:
            return []

    def windows(self) -> int:
        """Number of windows in the file."""
        with reader.opened(self.path) as history:
            return sum(len(one.windows) for one in history.windows(0))

    def dropped(self, reason: str) -> float | None:
        """Windows and events."""
        return own_sample(self.own, "gpustall_exporter_history_dropped_total", reason=reason)

    def wait_for(self, event: ChainEvent) -> None:
        """Until it is in the file. Each further event wakes the thread."""

        def is_written() -> bool:
            self.recorder.on_chain_event(an_event(chain_id="f" * 32))
            return event in self.events()

        eventually(is_written, f"{event.chain_id} is written")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Its recorder is not started yet."""
    made = Bench(tmp_path / "state" / "history.sqlite")
    yield made
    made.recorder.stop()


def history_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("history")]


class TestWriting:
    def test_event_is_written_before_the_window_ends(self, bench: Bench) -> None:
        bench.recorder.start(bench.read_totals)
        bench.recorder.on_chain_event(an_event())

        eventually(lambda: bench.events() == [an_event()], "it is written")

    def test_last_event_and_the_end_of_the_run_are_written_at_a_stop(self, bench: Bench) -> None:
        bench.recorder.start(bench.read_totals)
        bench.recorder.on_chain_event(an_event())
        bench.recorder.stop()

        assert bench.events() == [an_event()]
        with reader.opened(bench.path) as history:
            assert history.runs()[0].ended_unix_ns == STARTED_UNIX_NS


class TestWindows:
    """They end with a scrape, or without scrapes with a reading of the recorder."""

    def test_scrape_soon_after_a_window_is_not_due(self, bench: Bench) -> None:
        assert not bench.recorder.is_due(at(7.4))
        assert bench.recorder.is_due(at(7.5))

    def test_no_reading_within_eleven_seconds_after_a_scrape(self, bench: Bench) -> None:
        bench.now_seconds = 8.0
        bench.scrape()
        bench.now_seconds = 18.9
        bench.recorder.start(bench.read_totals)
        bench.wait_for(an_event(chain_id="f" * 32))

        assert (bench.readings, bench.windows()) == (0, 1)

    def test_totals_are_read_after_eleven_seconds_without_a_scrape(self, bench: Bench) -> None:
        """A little later than a scrape that comes every ten seconds."""
        bench.now_seconds = 11.0
        bench.recorder.start(bench.read_totals)
        bench.wait_for(an_event(chain_id="f" * 32))

        assert (bench.readings, bench.windows()) == (1, 1)

    def test_windows_begin_and_end_with_readings(self, bench: Bench) -> None:
        bench.recorder.start(bench.read_totals)
        bench.now_seconds = 11.0
        bench.wait_for(an_event(chain_id="f" * 32))
        with reader.opened(bench.path) as history:
            (window,) = history.windows(0)

        assert (window.began_unix_ns, window.ended_unix_ns) == (STARTED_UNIX_NS, STARTED_UNIX_NS + 11 * SECOND)

    def test_reading_that_fails_is_logged_once_and_events_are_written(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:

        def broken() -> None:
            raise RuntimeError("a defect")

        bench.now_seconds = 11.0
        bench.recorder.start(broken)
        bench.wait_for(an_event(chain_id="f" * 32))

        assert history_lines(caplog) == ["history: write failed, retrying: defect in the exporter"]


class TestQueue:
    def test_full_queue_drops_and_counts(self, bench: Bench) -> None:
        """The thread is not started, as if the disk did not respond."""
        for _ in range(QUEUE_MAX + 7):
            bench.recorder.on_chain_event(an_event())

        assert bench.dropped(QUEUE_FULL) == 7
