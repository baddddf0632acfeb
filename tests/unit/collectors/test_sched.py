"""sched: the results of the accountant as totals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import pytest

from exporter import catalog
from exporter.accounting.thread_time import times_by_process
from exporter.catalog import Metric
from exporter.collectors.sched import Sched
from exporter.kernel.abi import Culprit, IntervalKind, ThreadState, Victim
from exporter.kernel.tables import Tables
from exporter.totals import HistogramTotal, Series, Totals
from tests.support.tables import FakeTables

ON_CPU, RUNNABLE, IO, PIPE = ThreadState.ON_CPU, ThreadState.RUNNABLE, ThreadState.IO, ThreadState.PIPE


@pytest.fixture
def kernel() -> FakeTables:
    """A stall of 60 behind two programs, one of 30 behind a disk; a step thread with a gap; a beat every 40 ms; interrupts."""
    tables = FakeTables()
    tables.feeding(1, dry_ns={RUNNABLE: 60, PIPE: 30})
    tables.blame(1, 20_000_000, comm=b"stress")
    tables.blame(1, 10_000_000, comm=b"cc1", tgid=667)
    tables.blame(1, 7, victim=Victim.WORKER, culprit=Culprit.IRQ, comm=b"", tgid=0)
    tables.wakeup(1, PIPE, {IO: 900})
    tables.thread(1, 11, gaps_ns={ON_CPU: 5})
    tables.beats(1, [(40_000_000 * number, 7) for number in range(1, 17)])
    return tables


def totals_of(kernel: FakeTables, owners: Mapping[int, Hashable], ended: Iterable[int] = ()) -> Totals:
    """Totals of a first collection."""
    tables = Tables(kernel.maps, kernel.iterate)
    return collect(Sched(tables), tables, owners, 0, ended)


def collect(
    sched: Sched, tables: Tables, owners: Mapping[int, Hashable], now_ns: int, ended: Iterable[int] = ()
) -> Totals:
    """As the pipeline does it."""
    accounts = sched.update(owners, now_ns, tables.read())
    return sched.totals(accounts, times_by_process(accounts), ended)


def collected(kernel: FakeTables, metric: Metric, process: int = 1) -> dict[tuple[str, ...], object]:
    """The totals of one metric."""
    totals = totals_of(kernel, {1: "rank 0"})
    return {series.labels: total for series, total in totals[process].items() if series.metric is metric}


class TestTotals:
    def test_thread_time_is_by_operation_and_state(self, kernel: FakeTables) -> None:
        assert collected(kernel, catalog.sched.THREAD_TIME) == {("gap", "on_cpu"): 5}

    def test_lost_time_is_by_cause(self, kernel: FakeTables) -> None:
        """Its culprits together."""
        assert collected(kernel, catalog.sched.LOST) == {("cpu_contention",): 60, ("block_io",): 30}

    def test_culprits_of_a_cause_add_up_to_it(self, kernel: FakeTables) -> None:
        """Also when there is none."""
        assert collected(kernel, catalog.sched.CULPRIT) == {
            ("cpu_contention", "stress"): 40,
            ("cpu_contention", "cc1"): 20,
            ("block_io", ""): 30,
        }

    def test_interrupts_are_exported_even_without_lost_time(self, kernel: FakeTables) -> None:
        """Here those of a worker."""
        assert collected(kernel, catalog.sched.INTERRUPTED) == {(): 7}

    def test_wake_up_paths_are_by_sleep_and_state(self, kernel: FakeTables) -> None:
        assert collected(kernel, catalog.sched.WAIT_CHAIN) == {("pipe", "io"): 900}

    def test_steps_are_a_histogram(self, kernel: FakeTables) -> None:
        """From the second beat to the sixteenth."""
        (steps,) = collected(kernel, catalog.sched.STEP_DURATION).values()

        assert isinstance(steps, HistogramTotal)
        assert (sum(steps.counts), steps.sum_ns) == (14, 560_000_000)

    def test_every_metric_is_listed_in_the_catalogue(self, kernel: FakeTables) -> None:
        totals = totals_of(kernel, {1: 1})

        assert {series.metric for series in totals[1]} == set(catalog.METRICS_OF_COLLECTOR["sched"])


class TestTicks:
    def test_ticks_and_collections_share_one_accountant(self, kernel: FakeTables) -> None:
        """Nothing is lost twice."""
        tables = Tables(kernel.maps, kernel.iterate)
        sched = Sched(tables)
        sched.tick({1: 1}, 0)
        collect(sched, tables, {1: 1}, 1)
        totals = collect(sched, tables, {1: 1}, 2)

        assert totals[1][Series(catalog.sched.LOST, ("block_io",))] == 30

    def test_open_waits_of_an_ended_process_are_closed(self, kernel: FakeTables) -> None:
        """A wait without a culprit yet; that of the other process stays open."""
        kernel.feeding(2, dry_ns={RUNNABLE: 7})
        kernel.feeding(3, dry_ns={RUNNABLE: 7})
        totals = totals_of(kernel, {2: 2, 3: 3}, [2])

        lost = Series(catalog.sched.LOST, ("unknown",))
        assert (totals[2].get(lost), totals[3].get(lost)) == (7, None)

    def test_forgotten_process_is_not_collected(self, kernel: FakeTables) -> None:
        """Its rows are gone by then."""
        tables = Tables(kernel.maps, kernel.iterate)
        sched = Sched(tables)
        sched.tick({1: 1}, 0)
        sched.forget([1])

        assert collect(sched, tables, {}, 1) == {}


class TestSwitches:
    """Context switches of threads that make calls."""

    def test_ended_and_running_threads_are_added(self) -> None:
        """Those of workers are not."""
        kernel = FakeTables()
        kernel.interval(1, IntervalKind.GAP, {ON_CPU: 5}, voluntary=7, involuntary=2)
        kernel.interval(1, IntervalKind.OTHER_GAP, {ON_CPU: 5}, voluntary=10, involuntary=1)
        kernel.interval(1, IntervalKind.WORKER, {ON_CPU: 5}, voluntary=1000, involuntary=1000)
        tables = Tables(kernel.maps, kernel.iterate)
        sched = Sched(tables)
        collect(sched, tables, {1: "rank 0"}, 0)

        assert sched.switches == {1: (17, 3)}
