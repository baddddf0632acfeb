"""history.cutting: windows from totals that only grow, of processes that come and go."""

from __future__ import annotations

from collections.abc import Mapping

from exporter import catalog
from exporter.accounting.thread_time import INTERVAL_LABEL
from exporter.history.window import OperationTime, ProcessLabels, Switches, Window
from exporter.history.windowing import _UNTOLD, MAX_OPERATIONS, MAX_PROCESSES, ProcessTotals, WindowBuilder
from exporter.kernel.abi import IntervalKind
from exporter.totals import Counts, HistogramTotal, Series, Total
from tests.support.history import MS, process_labels
from tests.support.records import at

SYNC = ("runtime", "cudaStreamSynchronize")


def calls(count: int, slots: Mapping[int, int], sum_ns: int, operation: tuple[str, str] = SYNC) -> dict[Series, Total]:
    """Totals of one operation: all calls, and those that were timed, by slot."""
    counts = Counts.of([slots.get(slot, 0) for slot in range(300)])
    return {
        Series(catalog.cuda.OPERATIONS, operation): count,
        Series(catalog.cuda.OPERATION_DURATION, operation): HistogramTotal(counts, sum_ns),
    }


def cut(
    cutter: WindowBuilder,
    seconds: float,
    totals: Mapping[int, dict[Series, Total]],
    switches: Mapping[int, Switches] | None = None,
    who: ProcessLabels | None = None,
) -> list[Window]:
    """At a time, of these processes, all of which are alive and named."""
    labels = dict.fromkeys(totals, who or process_labels())
    return cutter.cut(ProcessTotals(at(seconds), dict(totals), labels, switches or {}))


class TestDifferences:
    """Between two cuts."""

    def test_first_window_has_everything_since_the_start(self) -> None:
        """The kernel counts from 0."""
        (window,) = cut(WindowBuilder(at(0)), 10, {1: calls(5, {100: 5}, 50)})

        assert window.operations == (OperationTime(*SYNC, 5, 0, HistogramTotal(Counts.of([5], 100), 50)),)
        assert (window.began_unix_ns, window.ended_unix_ns) == (at(0).unix_ns, at(10).unix_ns)

    def test_next_window_has_what_was_added(self) -> None:
        """Slot by slot."""
        cutter = WindowBuilder(at(0))
        cut(cutter, 10, {1: calls(5, {100: 5}, 50)})
        (window,) = cut(cutter, 20, {1: calls(12, {100: 6, 110: 6}, 170)})

        assert window.operations == (OperationTime(*SYNC, 7, 0, HistogramTotal(Counts.of([1, *[0] * 9, 6], 100), 120)),)
        assert (window.began_unix_ns, window.ended_unix_ns) == (at(10).unix_ns, at(20).unix_ns)

    def test_counted_calls_are_more_than_timed_ones(self) -> None:
        """Of launches one in 64 may be timed."""
        (window,) = cut(WindowBuilder(at(0)), 10, {1: calls(640, {100: 10}, 50)})

        assert (window.operations[0].calls, window.operations[0].timed.counts.total) == (640, 10)

    def test_process_that_did_nothing_has_no_window(self) -> None:
        """Though its threads grew older."""
        cutter = WindowBuilder(at(0))
        resting: dict[Series, Total] = calls(5, {100: 5}, 50)
        cut(cutter, 10, {1: resting})

        assert cut(cutter, 20, {1: {**resting, Series(catalog.sched.THREAD_TIME, ("gap", "sleep")): 10**10}}) == []

    def test_steps_and_losses_are_those_of_the_window(self) -> None:
        """By cause, and by culprit where there is one."""
        cutter = WindowBuilder(at(0))

        def totals(steps: int, contention_ns: int) -> dict[Series, Total]:
            return {
                Series(catalog.sched.STEP_DURATION, ()): HistogramTotal(Counts.of([steps], 150), steps * 20 * MS),
                Series(catalog.sched.LOST, ("cpu_contention",)): contention_ns,
                Series(catalog.sched.LOST, ("lock",)): 7,
                Series(catalog.sched.CULPRIT, ("cpu_contention", "stress-ng")): contention_ns,
                Series(catalog.sched.CULPRIT, ("lock", "")): 7,
            }

        cut(cutter, 10, {1: totals(100, 1000)})
        (window,) = cut(cutter, 20, {1: totals(350, 5000)})

        assert window.steps == HistogramTotal(Counts.of([250], 150), 250 * 20 * MS)
        assert window.lost_ns == {"cpu_contention": 4000}
        assert window.culprits_ns == (("cpu_contention", "stress-ng", 4000),)

    def test_thread_time_is_that_of_calls_and_of_gaps_between_them(self) -> None:
        """Threads that feed the GPU: not workers, nor those that wait for nothing."""
        totals = calls(1, {100: 1}, 5) | {
            Series(catalog.sched.THREAD_TIME, (operation, "runnable")): ns
            for operation, ns in (
                ("cudaLaunchKernel", 1),
                ("gap", 10),
                ("other_gap", 100),
                ("worker", 1000),
                ("idle", 10_000),
            )
        }
        (window,) = cut(WindowBuilder(at(0)), 10, {1: totals})

        assert window.states_ns == {"runnable": 11}

    def test_labels_that_are_not_told_exist(self) -> None:
        """Everything but the gaps of threads that feed the GPU."""
        assert {INTERVAL_LABEL[kind] for kind in IntervalKind} - {"gap"} == _UNTOLD

    def test_switches_are_those_of_the_window(self) -> None:
        """And none where a thread ended between two tables."""
        cutter = WindowBuilder(at(0))
        cut(cutter, 10, {1: calls(1, {100: 1}, 5)}, {1: Switches(50, 20)})
        (window,) = cut(cutter, 20, {1: calls(2, {100: 2}, 10)}, {1: Switches(80, 19)})

        assert window.switches == Switches(30, 0)


class TestOperations:
    """Few of many."""

    def test_those_that_took_most_time_are_told_and_the_rest_is_one(self) -> None:
        """Ten operations: the two shortest are `other`."""
        totals: dict[Series, Total] = {}
        for number in range(MAX_OPERATIONS + 2):
            totals |= calls(1, {100: 1}, 1000 + number, ("runtime", f"op{number}"))
        (window,) = cut(WindowBuilder(at(0)), 10, {1: totals})

        assert [one.name for one in window.operations] == [f"op{number}" for number in range(9, 1, -1)] + ["other"]
        assert (window.operations[-1].calls, window.operations[-1].timed.sum_ns) == (2, 2001)

    def test_one_that_failed_is_told_however_short(self) -> None:
        """All of its codes together."""
        totals: dict[Series, Total] = {
            Series(catalog.cuda.OPERATION_ERRORS, ("runtime", "cudaMalloc", "2")): 3,
            Series(catalog.cuda.OPERATION_ERRORS, ("runtime", "cudaMalloc", "700")): 1,
        }
        totals |= calls(4, {90: 4}, 1, ("runtime", "cudaMalloc"))
        for number in range(MAX_OPERATIONS):
            totals |= calls(1, {100: 1}, 1000, ("runtime", f"op{number}"))
        (window,) = cut(WindowBuilder(at(0)), 10, {1: totals})

        assert (window.operations[0].name, window.operations[0].errors) == ("cudaMalloc", 4)

    def test_communicators_of_nccl_are_one_operation(self) -> None:
        """Whose calls are counted by its histograms alone."""
        totals: dict[Series, Total] = {
            Series(catalog.nccl.OPERATION_DURATION, ("ncclAllReduce", communicator)): HistogramTotal(
                Counts.of([3], 80), 30
            )
            for communicator in ("0", "1")
        }
        (window,) = cut(WindowBuilder(at(0)), 10, {1: totals})

        assert window.operations == (
            OperationTime("nccl", "ncclAllReduce", 6, 0, HistogramTotal(Counts.of([6], 80), 60)),
        )


class TestProcesses:
    """That come and go."""

    def test_one_that_ended_has_its_last_part(self) -> None:
        """In the next cut, once."""
        cutter = WindowBuilder(at(0))
        cut(cutter, 10, {1: calls(5, {100: 5}, 50)})
        cutter.end_process(1, process_labels(), calls(8, {100: 8}, 80), Switches(0, 0))
        (last,) = cut(cutter, 20, {})

        assert last.operations[0].calls == 3
        assert cut(cutter, 30, {}) == []

    def test_one_that_came_and_ended_between_two_cuts_is_told(self) -> None:
        """All of it."""
        cutter = WindowBuilder(at(0))
        cutter.end_process(1, process_labels("5"), calls(8, {100: 8}, 80), Switches(4, 2))
        (window,) = cut(cutter, 10, {})

        assert (window.labels.identity.rank, window.operations[0].calls, window.switches) == ("5", 8, Switches(4, 2))

    def test_process_that_is_not_named_yet_waits(self) -> None:
        """What it did is in the window after it has got its name."""
        cutter = WindowBuilder(at(0))
        totals = {1: calls(5, {100: 5}, 50)}
        cutter.cut(ProcessTotals(at(10), totals, {}, {}))
        (window,) = cut(cutter, 20, totals)

        assert window.operations[0].calls == 5

    def test_more_processes_than_there_is_room_for_are_left_out_and_counted(self) -> None:
        """Those that came first stay, so that none is told half of the time."""
        cutter = WindowBuilder(at(0))
        totals = {number: calls(1, {100: 1}, 5) for number in range(MAX_PROCESSES + 3)}
        windows = cut(cutter, 10, totals)

        assert [window.process for window in windows] == list(range(MAX_PROCESSES))
        assert cutter.left_out == 3

    def test_room_of_one_that_ended_is_taken_by_another(self) -> None:
        """At the next cut."""
        cutter = WindowBuilder(at(0))
        totals = {number: calls(1, {100: 1}, 5) for number in range(MAX_PROCESSES + 1)}
        cut(cutter, 10, totals)
        cutter.end_process(0, process_labels(), totals.pop(0), Switches(0, 0))
        cut(cutter, 20, totals)
        windows = cut(cutter, 30, totals)

        assert [window.process for window in windows] == [MAX_PROCESSES]
