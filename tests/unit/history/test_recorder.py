"""history.recorder: what it is told ends up in the file, whatever happens to the file; nobody waits for it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exporter import catalog
from exporter.chains.event import ChainEvent
from exporter.clock import Clock
from exporter.errors import NotPossibleHere
from exporter.history import reader
from exporter.history.recorder import NOT_WRITTEN, QUEUE_FULL, QUEUE_MAX, SHARED_SECONDS, Recorder, Settings
from exporter.history.windowing import ProcessTotals
from exporter.output.negotiation import Format
from exporter.output.own_metrics import OwnMetrics
from exporter.totals import Series
from tests.support.history import SECOND, a_report, process_labels
from tests.support.records import STARTED_UNIX_NS, at
from tests.support.traced import eventually

CALLS = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))


class Bench:
    """A recorder on a clock of its own, which stands still. looks: how often it has asked for a reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now_seconds = 0.0
        self.looks = 0
        self.own = OwnMetrics()
        self.recorder = self.another()

    def another(self) -> Recorder:
        """On the same file."""
        clock = Clock(lambda: at(self.now_seconds).monotonic_ns, lambda: at(self.now_seconds).unix_ns)
        settings = Settings(self.path, 4 << 20, 3600.0, has_chains=True)
        return Recorder(settings, self.own, clock, retry_seconds=0.0)

    def look(self) -> None:
        """What a publication does when it is asked for a reading."""
        self.looks += 1
        self.see()

    def see(self) -> None:
        """A scrape, now."""
        taken = ProcessTotals(at(self.now_seconds), {1: {CALLS: 1 + int(self.now_seconds)}}, {1: process_labels()}, {})
        if self.recorder.is_due(taken.at):
            self.recorder.on_totals(taken)

    def reports(self) -> list[ChainEvent]:
        """What can be read."""
        try:
            with reader.opened(self.path) as history:
                return [told.report for told in history.told(0)]
        except NotPossibleHere:
            return []

    def windows(self) -> int:
        """What can be read."""
        with reader.opened(self.path) as history:
            return sum(len(seen.windows) for seen in history.seen(0))

    def own_value(self, name: str, **labels: str) -> float | None:
        """A sample of the exporter's own metrics."""
        for family in text_string_to_metric_families(self.own.render(Format.TEXT).decode()):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    def dropped(self, reason: str) -> float | None:
        """Windows and reports."""
        return self.own_value("gpustall_exporter_history_dropped_total", reason=reason)

    def wait_for(self, report: ChainEvent) -> None:
        """Until it can be read. It is told again and again: each wakes the thread."""

        def told() -> bool:
            self.recorder.on_chain_event(a_report(chain_id="f" * 32))
            return report in self.reports()

        eventually(told, f"{report.chain_id} is written")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Not started."""
    made = Bench(tmp_path / "state" / "history.sqlite")
    yield made
    made.recorder.stop()


def history_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of it."""
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("history")]


class TestWriting:
    """In the end all of it is in the file."""

    def test_report_can_be_read_at_once(self, bench: Bench) -> None:
        """Nobody waits for the end of a window."""
        bench.recorder.start(bench.look)
        bench.recorder.on_chain_event(a_report())

        eventually(lambda: bench.reports() == [a_report()], "it is written")

    def test_what_was_told_last_is_written_at_the_end(self, bench: Bench) -> None:
        """And the run has an end."""
        bench.recorder.start(bench.look)
        bench.recorder.on_chain_event(a_report())
        bench.recorder.stop()

        assert bench.reports() == [a_report()]
        with reader.opened(bench.path) as history:
            assert history.runs()[0].ended_unix_ns == STARTED_UNIX_NS

    def test_numbers_of_its_own_are_told(self, bench: Bench) -> None:
        """That it works, and how large it is."""
        bench.recorder.start(bench.look)
        bench.wait_for(a_report(chain_id="f" * 32))
        bench.recorder.stop()

        assert bench.own_value("gpustall_exporter_history_success") == 1
        assert (bench.own_value("gpustall_exporter_history_bytes") or 0) > 4096


class TestWindows:
    """Cut when somebody scrapes, or else by a reading of our own."""

    def test_scrape_soon_after_a_window_is_not_due(self, bench: Bench) -> None:
        """It would cost for nothing."""
        assert not bench.recorder.is_due(at(7.4))
        assert bench.recorder.is_due(at(7.5))

    def test_scrape_spares_a_reading(self, bench: Bench) -> None:
        """Eleven seconds after a window that a scrape has cut, and not before, the next one is cut."""
        bench.now_seconds = 8.0
        bench.see()
        bench.now_seconds = 18.9
        bench.recorder.start(bench.look)
        bench.wait_for(a_report(chain_id="f" * 32))

        assert (bench.looks, bench.windows()) == (0, 1)

    def test_without_scrapes_it_reads_itself(self, bench: Bench) -> None:
        """A little later than somebody would who scrapes every ten seconds."""
        bench.now_seconds = 11.0
        bench.recorder.start(bench.look)
        bench.wait_for(a_report(chain_id="f" * 32))

        assert (bench.looks, bench.windows()) == (1, 1)

    def test_reading_that_fails_is_logged_and_costs_nothing_else(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Once, not at every turn."""

        def broken() -> None:
            raise RuntimeError("a defect")

        bench.now_seconds = 11.0
        bench.recorder.start(broken)
        bench.wait_for(a_report(chain_id="f" * 32))

        assert history_lines(caplog) == ["history failed"]


class TestNobodyWaits:
    """Whoever tells it something goes on at once."""

    def test_full_queue_drops_and_counts(self, bench: Bench) -> None:
        """The thread has not begun: as if the disk did not answer."""
        for _ in range(QUEUE_MAX + 7):
            bench.recorder.on_chain_event(a_report())

        assert bench.dropped(QUEUE_FULL) == 7


class TestTroubles:
    """Said once, and over as soon as the reason is."""

    def test_garbage_goes_aside(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """And a new file is begun."""
        bench.path.parent.mkdir(0o750)
        bench.path.write_bytes(b"garbage" * 1000)
        bench.recorder.start(bench.look)
        bench.recorder.on_chain_event(a_report())
        eventually(lambda: bench.reports() == [a_report()], "it is written")
        (aside,) = bench.path.parent.glob("*.corrupt-*")

        assert aside.read_bytes() == b"garbage" * 1000
        (line,) = history_lines(caplog)
        assert "was damaged" in line
        assert aside.name in line

    def test_damage_while_it_runs_is_met_and_mended(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """The next report is in the new file."""
        bench.recorder.start(bench.look)
        bench.wait_for(a_report(chain_id="f" * 32))
        log = bench.path.with_name(bench.path.name + "-wal")
        for file in (bench.path, log, bench.path.with_name(bench.path.name + "-shm")):
            with file.open("r+b") as damaged:
                damaged.write(b"\xa5" * file.stat().st_size)

        def written() -> bool:
            bench.recorder.on_chain_event(a_report(chain_id="2" * 32))
            return any(report.chain_id == "2" * 32 for report in bench.reports())

        eventually(written, "the next report is written")

        assert any("was damaged" in line for line in history_lines(caplog))

    def test_removed_file_is_begun_anew(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """Its directory as well."""
        bench.recorder.start(bench.look)
        bench.wait_for(a_report(chain_id="f" * 32))
        for file in bench.path.parent.iterdir():
            file.unlink()
        bench.path.parent.rmdir()
        bench.wait_for(a_report(chain_id="f" * 32))

        (line,) = history_lines(caplog)
        assert "removed or replaced" in line

    def test_directory_in_its_place_is_said_once(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """However often it is tried."""
        bench.path.mkdir(parents=True)
        bench.path.parent.chmod(0o750)
        bench.recorder.start(bench.look)
        for times in range(1, 6):
            bench.now_seconds += SHARED_SECONDS
            bench.see()
            eventually(lambda times=times: bench.dropped(NOT_WRITTEN) == times, "the window could not be written")

        (line,) = history_lines(caplog)
        assert line == f"history is off: {bench.path} is no file"
        assert bench.own_value("gpustall_exporter_history_success") == 0

    def test_windows_that_are_not_written_are_counted(self, bench: Bench) -> None:
        """By process."""
        bench.path.mkdir(parents=True)
        bench.now_seconds = 11.0
        bench.recorder.start(bench.look)

        eventually(lambda: bench.dropped(NOT_WRITTEN) == 1, "the window is counted")

    def test_report_waits_until_it_can_be_written(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """An episode is not forgotten because the disk had a bad minute."""
        caplog.set_level(logging.INFO)
        bench.path.parent.mkdir()
        bench.path.parent.chmod(0o777)
        bench.recorder.start(bench.look)
        bench.recorder.on_chain_event(a_report())
        eventually(lambda: history_lines(caplog), "it is said")
        bench.path.parent.chmod(0o750)
        bench.wait_for(a_report())

        assert len(history_lines(caplog)) == 2
        assert "is written again" in history_lines(caplog)[1]

    def test_second_exporter_goes_on_without_and_takes_over(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As soon as the first has ended."""
        bench.recorder.start(bench.look)
        bench.wait_for(a_report(chain_id="f" * 32))
        first, bench.recorder = bench.recorder, bench.another()
        bench.recorder.start(bench.look)
        bench.recorder.on_chain_event(a_report())
        eventually(lambda: history_lines(caplog), "the second says so")
        assert a_report() not in bench.reports()
        first.stop()
        bench.wait_for(a_report())

        assert "another exporter writes" in history_lines(caplog)[0]

    def test_time_of_day_is_that_of_the_clock(self, bench: Bench) -> None:
        """Windows are where scrapes were."""
        bench.recorder.start(bench.look)
        bench.now_seconds = 11.0
        bench.wait_for(a_report(chain_id="f" * 32))
        with reader.opened(bench.path) as history:
            (seen,) = history.seen(0)

        assert (seen.began_unix_ns, seen.ended_unix_ns) == (STARTED_UNIX_NS, STARTED_UNIX_NS + 11 * SECOND)
