"""history.writer: what is in the file after each write, whatever happens to the file in between."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exporter import catalog
from exporter.catalog import Metric
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.clock import Clock
from exporter.errors import NotPossibleHere
from exporter.history import reader
from exporter.history.window_batch import WindowBatch
from exporter.history.writer import BACKLOG_MAX, NOT_WRITTEN, HistoryWriter, Settings
from exporter.own_metrics.store import OwnMetrics
from tests.support.history import NOON, SECOND, a_window, an_event, resolved
from tests.support.records import STARTED_UNIX_NS, at, own_sample

FIRST, SECOND_ONE, THIRD = (an_event(chain_id=digit * 32) for digit in "123")


class Bench:
    """A writer whose clock stands still, and its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.own = OwnMetrics()
        self.writer = self.another()

    def another(self, retry_seconds: float = 0.0) -> HistoryWriter:
        """A writer of another exporter to the same file."""
        clock = Clock(lambda: at(0.0).monotonic_ns, lambda: at(0.0).unix_ns)
        settings = Settings(self.path, 4 << 20, 3600.0, has_chains=True)
        return HistoryWriter(settings, self.own, clock, at(0.0), retry_seconds=retry_seconds)

    def write(self, *events: ChainEvent) -> None:
        self.writer.write(events, [])

    def events(self) -> list[ChainEvent]:
        """Events in the file."""
        try:
            with reader.opened(self.path) as history:
                return [one.event for one in history.events(0)]
        except NotPossibleHere:
            return []

    def value(self, metric: Metric, **labels: str) -> float | None:
        return own_sample(self.own, metric.name, **labels)

    def damage(self) -> None:
        """Overwrite the file and what SQLite keeps beside it."""
        for file in self.path.parent.glob(f"{self.path.name}*"):
            if not file.name.endswith("-lock"):
                with file.open("r+b") as damaged:
                    damaged.write(b"\xa5" * file.stat().st_size)

    def block(self) -> None:
        """Make the directory unusable: every user may write to it."""
        self.path.parent.mkdir(exist_ok=True)
        self.path.parent.chmod(0o777)

    def unblock(self) -> None:
        self.path.parent.chmod(0o750)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "state" / "history.sqlite")
    yield made
    made.writer.close([], [])


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines of the log so far."""
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records]


class TestWrite:
    def test_events_are_in_the_file(self, bench: Bench) -> None:
        bench.write(FIRST, SECOND_ONE)

        assert bench.events() == [FIRST, SECOND_ONE]

    def test_windows_are_in_the_file(self, bench: Bench) -> None:
        bench.writer.write([], [WindowBatch(NOON, NOON + 10 * SECOND, [a_window()])])
        with reader.opened(bench.path) as history:
            (found,) = history.windows(0)

        assert list(found.windows) == [a_window()]

    def test_success_and_size_are_reported(self, bench: Bench) -> None:
        """Not before the first write."""
        assert bench.value(catalog.own.HISTORY_SUCCESS) == 0
        bench.write(FIRST)

        assert bench.value(catalog.own.HISTORY_SUCCESS) == 1
        assert bench.value(catalog.own.HISTORY_BYTES) > 4096

    def test_events_of_open_chains_outlive_the_retention(self, bench: Bench) -> None:
        """Those of a resolved chain do not: both are months old, and an hour is kept."""
        open_one, over = (an_event(-20_000_000.0, chain_id=digit * 32) for digit in "45")
        bench.write(open_one, over, resolved(over, 1.0))

        assert bench.events() == [open_one]


class TestClose:
    def test_last_events_and_the_end_of_the_run_are_written(self, bench: Bench) -> None:
        bench.writer.close([FIRST], [])
        with reader.opened(bench.path) as history:
            (run,) = history.runs()

        assert (bench.events(), run.ended_unix_ns) == ([FIRST], STARTED_UNIX_NS)

    def test_file_is_free_for_another_exporter(self, bench: Bench) -> None:
        bench.write(FIRST)
        bench.writer.close([], [])
        bench.writer = bench.another()
        bench.write(SECOND_ONE)

        assert bench.events() == [FIRST, SECOND_ONE]


class TestFailedWrite:
    def test_it_lasts_until_something_is_written(self, bench: Bench, lines: Callable[[], list[str]]) -> None:
        """Another program has locked the file. Nothing to write is no success, and the windows that failed were dropped."""
        batch = WindowBatch(NOON, NOON + 10 * SECOND, [a_window()])
        bench.write(FIRST)
        with closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
            other.execute("begin immediate")
            bench.writer.write([], [batch])
            bench.write()

            assert bench.value(catalog.own.HISTORY_SUCCESS) == 0
            other.execute("rollback")
        bench.writer.write([], [batch])

        assert bench.value(catalog.own.HISTORY_SUCCESS) == 1
        assert [line for line in lines() if "resumed" in line] == [f"history: writing to {bench.path} has resumed"]


class TestBacklog:
    """Events that could not be written."""

    def test_they_are_written_first_once_it_is_possible(self, bench: Bench, lines: Callable[[], list[str]]) -> None:
        bench.block()
        bench.write(FIRST)
        assert bench.events() == []
        bench.unblock()
        bench.write(SECOND_ONE)

        assert bench.events() == [FIRST, SECOND_ONE]
        assert lines()[-1] == f"history: writing to {bench.path} has resumed"

    def test_the_latest_256_wait_and_older_ones_are_dropped(self, bench: Bench) -> None:
        bench.block()
        events = [an_event(chain_id=f"{number:032x}") for number in range(BACKLOG_MAX + 3)]
        bench.write(*events)
        bench.unblock()
        bench.write()

        assert bench.value(catalog.own.HISTORY_DROPPED, reason=NOT_WRITTEN) == 3
        assert bench.events() == events[3:]

    def test_updates_do_not_wait(self, bench: Bench) -> None:
        """They come again, and would take the places of what happened."""
        bench.block()
        bench.write(FIRST, *(an_event(change=Change.UPDATED) for _ in range(BACKLOG_MAX)))
        bench.unblock()
        bench.write()

        assert bench.value(catalog.own.HISTORY_DROPPED, reason=NOT_WRITTEN) == 0
        assert bench.events() == [FIRST]

    def test_windows_do_not_wait(self, bench: Bench) -> None:
        """Each process is counted."""
        bench.block()
        bench.writer.write([], [WindowBatch(NOON, NOON + 10 * SECOND, [a_window(), a_window(process=2)])])

        assert bench.value(catalog.own.HISTORY_DROPPED, reason=NOT_WRITTEN) == 2

    def test_no_attempt_is_made_before_the_retry(self, bench: Bench) -> None:
        """An hour after the first one, which failed."""
        bench.writer = bench.another(retry_seconds=3600.0)
        bench.block()
        bench.write(FIRST)
        bench.unblock()
        bench.write(SECOND_ONE)

        assert bench.events() == []


class TestProblems:
    """Each is logged once."""

    def test_damaged_file_is_moved_aside(self, bench: Bench, lines: Callable[[], list[str]]) -> None:
        """The event waits for the next write, to the new file."""
        bench.path.parent.mkdir(0o750)
        bench.path.write_bytes(b"garbage" * 1000)
        bench.write(FIRST)
        bench.write(SECOND_ONE)
        (aside,) = bench.path.parent.glob("*.corrupt-*")

        assert (aside.read_bytes(), bench.events()) == (b"garbage" * 1000, [FIRST, SECOND_ONE])
        (line,) = lines()
        assert f"history file {bench.path} was damaged" in line
        assert f"moved it to {aside} and created a new one" in line

    def test_file_damaged_between_two_writes_is_replaced(self, bench: Bench, lines: Callable[[], list[str]]) -> None:
        bench.write(FIRST)
        bench.damage()
        bench.write(SECOND_ONE)
        bench.write(THIRD)

        assert bench.events() == [SECOND_ONE, THIRD]
        assert bench.value(catalog.own.HISTORY_WRITE_FAILURES) == 1
        assert "was damaged" in lines()[0]

    def test_removed_file_is_created_again(self, bench: Bench, lines: Callable[[], list[str]]) -> None:
        """Its directory, too."""
        bench.write(FIRST)
        for file in bench.path.parent.iterdir():
            file.unlink()
        bench.path.parent.rmdir()
        bench.write(SECOND_ONE)

        assert bench.events() == [SECOND_ONE]
        (line,) = lines()
        assert line == f"history file {bench.path} was removed or replaced: creating a new one"

    def test_unusable_path_is_logged_once(self, bench: Bench, lines: Callable[[], list[str]]) -> None:
        """However often the writer retries."""
        bench.path.mkdir(parents=True)
        bench.path.parent.chmod(0o750)
        for _ in range(5):
            bench.write(FIRST)

        (line,) = lines()
        assert line == f"history writes paused: {bench.path} is not a regular file"
        assert bench.value(catalog.own.HISTORY_SUCCESS) == 0

    def test_second_exporter_writes_once_the_first_has_stopped(
        self, bench: Bench, lines: Callable[[], list[str]]
    ) -> None:
        bench.write(FIRST)
        first, bench.writer = bench.writer, bench.another()
        bench.write(SECOND_ONE)
        assert bench.events() == [FIRST]
        first.close([], [])
        bench.write(THIRD)

        assert bench.events() == [FIRST, SECOND_ONE, THIRD]
        assert "another exporter writes to" in lines()[0]
