"""history.window_feed: when windows end, which sinks get them, and what happens without a sink that wants them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter import catalog
from exporter.clock import Clock
from exporter.errors import KernelRefused
from exporter.history.window import Switches
from exporter.history.window_batch import WindowBatch
from exporter.history.window_feed import WindowFeed
from exporter.history.windowing import MAX_PROCESSES, EndedProcess, ProcessTotals
from exporter.python.call_site import CallSite
from exporter.totals import Series
from tests.support.history import SECOND, process_labels
from tests.support.records import STARTED_UNIX_NS, at
from tests.support.traced import eventually

CALLS = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))


def ended(number: int) -> EndedProcess:
    """A process that made 23 calls."""
    return EndedProcess(number, process_labels(), {CALLS: 23}, Switches(0, 0))


class Sink:
    """Keeps all batches."""

    def __init__(self, *, wants_windows: bool = True) -> None:
        self.wants_windows = wants_windows
        self.batches: list[WindowBatch] = []

    def on_windows(self, batch: WindowBatch) -> None:
        self.batches.append(batch)

    def spans(self) -> list[tuple[int, int]]:
        """Begin and end of each batch, in seconds since the start."""
        return [
            ((one.began_unix_ns - STARTED_UNIX_NS) // SECOND, (one.ended_unix_ns - STARTED_UNIX_NS) // SECOND)
            for one in self.batches
        ]

    def calls(self) -> list[int]:
        """Calls of the only process and operation, in each batch."""
        return [one.windows[0].operations[0].calls for one in self.batches]


class Bench:
    """A feed with a clock that a test sets. One call a second. readings: how often the feed has read the totals itself.

    times_asked: how often something has looked at the clock. asked_lines: processes whose lines of Python were requested.
    """

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.readings = 0
        self.times_asked = 0
        self.processes = 1
        self.error: Exception | None = None
        self.sink, self.other = Sink(), Sink(wants_windows=False)
        self.asked_lines: list[int] = []
        clock = Clock(self._monotonic_ns, lambda: at(self.now_seconds).unix_ns)
        self.feed = WindowFeed([self.sink, self.other], clock, self._lines)

    def _lines(self, process: int) -> tuple[CallSite, ...]:
        self.asked_lines.append(process)
        return ()

    def _monotonic_ns(self) -> int:
        self.times_asked += 1
        return at(self.now_seconds).monotonic_ns

    def read_totals(self) -> None:
        self.readings += 1
        if self.error:
            raise self.error
        self.scrape()

    def scrape(self, at_seconds: float | None = None) -> None:
        if at_seconds is not None:
            self.now_seconds = at_seconds
        numbers = range(self.processes)
        calls = {CALLS: int(self.now_seconds)}
        labels = {number: process_labels() for number in numbers}
        totals = ProcessTotals(at(self.now_seconds), {number: dict(calls) for number in numbers}, labels, {})
        if self.feed.is_due(totals.at):
            self.feed.on_totals(totals)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Its feed is not started yet."""
    made = Bench()
    yield made
    made.feed.stop()


class TestScrapes:
    """A window ends with a scrape."""

    def test_scrape_soon_after_a_window_is_not_due(self, bench: Bench) -> None:
        assert not bench.feed.is_due(at(7.4))
        assert bench.feed.is_due(at(7.5))

    def test_windows_follow_each_other(self, bench: Bench) -> None:
        """Scrapes every five seconds: windows of ten."""
        for seconds in (5.0, 10.0, 15.0, 20.0):
            bench.scrape(seconds)

        assert bench.sink.spans() == [(0, 10), (10, 20)]
        assert bench.sink.calls() == [10, 10]

    def test_processes_beyond_the_limit_are_counted_in_the_batch(self, bench: Bench) -> None:
        bench.processes = MAX_PROCESSES + 3
        bench.scrape(10.0)
        (batch,) = bench.sink.batches

        assert (len(batch.windows), batch.dropped) == (MAX_PROCESSES, 3)


class TestReadings:
    """Without scrapes the feed reads the totals."""

    def test_no_reading_within_eleven_seconds_after_a_scrape(self, bench: Bench) -> None:
        bench.scrape(8.0)
        bench.now_seconds = 18.9
        bench.feed.start(bench.read_totals)
        asked = bench.times_asked
        eventually(lambda: bench.times_asked >= asked + 3, "the feed has looked at the clock")

        assert bench.readings == 0

    def test_totals_are_read_after_eleven_seconds_without_a_scrape(self, bench: Bench) -> None:
        """A little later than a scrape that comes every ten seconds."""
        bench.now_seconds = 11.0
        bench.feed.start(bench.read_totals)
        eventually(lambda: bench.sink.batches, "a window ends")

        assert (bench.readings, bench.sink.spans()) == (1, [(0, 11)])

    def test_defect_of_a_reading_is_logged_and_the_feed_goes_on(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.error = RuntimeError("a defect")
        bench.now_seconds = 11.0
        bench.feed.start(bench.read_totals)
        eventually(lambda: caplog.records, "it is logged")
        bench.error = None
        bench.feed.stop()

        assert [one.getMessage() for one in caplog.records] == [
            "windows: reading failed, retrying: internal error (bug)"
        ]
        assert bench.sink.spans() == [(0, 11)]

    def test_map_that_cannot_be_read_is_not_logged_again(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """The tick logs it."""
        bench.error = KernelRefused("bpf(2): no permission")
        bench.now_seconds = 11.0
        bench.feed.start(bench.read_totals)
        eventually(lambda: bench.readings, "it has tried")
        bench.feed.stop()

        assert [one for one in caplog.records if one.levelname != "DEBUG"] == []


class TestStop:
    """The end of the exporter."""

    def test_last_window_ends_with_the_stop(self, bench: Bench) -> None:
        """Three seconds after the one before."""
        bench.feed.start(bench.read_totals)
        bench.scrape(10.0)
        bench.now_seconds = 13.0
        bench.feed.stop()

        assert bench.sink.spans() == [(0, 10), (10, 13)]
        assert bench.sink.calls() == [10, 3]

    def test_scrape_after_the_stop_ends_no_window(self, bench: Bench) -> None:
        """The receivers have been sent their last ones."""
        bench.feed.start(bench.read_totals)
        bench.now_seconds = 13.0
        bench.feed.stop()
        bench.scrape(60.0)

        assert bench.sink.spans() == [(0, 13)]

    def test_nothing_is_read_where_no_sink_wants_windows(self, bench: Bench) -> None:
        bench.sink.wants_windows = False
        bench.now_seconds = 13.0
        bench.feed.start(bench.read_totals)
        bench.feed.stop()

        assert bench.readings == 0


class TestSinks:
    """Who wants windows may change with a reload."""

    def test_sink_that_wants_none_gets_none(self, bench: Bench) -> None:
        bench.scrape(10.0)

        assert (len(bench.sink.batches), bench.other.batches) == (1, [])

    def test_sink_that_wants_them_later_gets_them_from_then_on(self, bench: Bench) -> None:
        bench.scrape(10.0)
        bench.other.wants_windows = True
        bench.scrape(20.0)

        assert bench.other.spans() == [(10, 20)]

    def test_first_window_after_a_time_without_a_sink_is_left_out(self, bench: Bench) -> None:
        """It would be an hour long. The next one has what was added since."""
        bench.sink.wants_windows = False
        bench.scrape(10.0)
        bench.sink.wants_windows = True
        for seconds in (3600.0, 3610.0):
            bench.scrape(seconds)

        assert bench.sink.spans() == [(3600, 3610)]
        assert bench.sink.calls() == [10]

    def test_process_that_ends_while_no_sink_wants_windows_is_not_kept(self, bench: Bench) -> None:
        """Totals of many of them would take much memory. Its lines of Python are not asked for either."""
        bench.sink.wants_windows = False
        bench.feed.on_process_end(ended(7))
        bench.sink.wants_windows = True
        bench.feed.on_process_end(ended(8))

        assert bench.asked_lines == [8]

    def test_processes_that_ended_beyond_the_limit_are_counted(self, bench: Bench) -> None:
        """The totals of the first ones are dropped before a window ends."""
        bench.processes = 0
        for number in range(MAX_PROCESSES + 3):
            bench.feed.on_process_end(ended(number))
        bench.scrape(10.0)
        (batch,) = bench.sink.batches

        assert (len(batch.windows), batch.dropped) == (MAX_PROCESSES, 3)

    def test_process_that_ends_is_in_the_next_windows(self, bench: Bench) -> None:
        bench.processes = 0
        bench.feed.on_process_end(ended(7))
        bench.scrape(10.0)

        assert bench.sink.calls() == [23]
