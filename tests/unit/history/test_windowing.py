"""history.windowing: windows from cumulative totals, of processes that come and go."""

from __future__ import annotations

from collections.abc import Mapping

from exporter import catalog
from exporter.accounting.thread_time import INTERVAL_LABEL
from exporter.history.window import OperationTime, ProcessLabels, Switches, Window
from exporter.history.windowing import _IGNORED_OPERATIONS, MAX_OPERATIONS, MAX_PROCESSES, ProcessTotals, WindowBuilder
from exporter.kernel.abi import IntervalKind
from exporter.totals import Counts, HistogramTotal, Series, Total
from tests.support.history import MS, process_labels
from tests.support.records import at

SYNC = ("runtime", "cudaStreamSynchronize")


def calls(count: int, slots: Mapping[int, int], sum_ns: int, operation: tuple[str, str] = SYNC) -> dict[Series, Total]:
    """Totals of one operation: all calls, and the timed ones by bucket."""
    counts = Counts.of([slots.get(slot, 0) for slot in range(300)])
    return {
        Series(catalog.cuda.OPERATIONS, operation): count,
        Series(catalog.cuda.OPERATION_DURATION, operation): HistogramTotal(counts, sum_ns),
    }


def build(
    builder: WindowBuilder,
    seconds: float,
    totals: Mapping[int, dict[Series, Total]],
    switches: Mapping[int, Switches] | None = None,
    who: ProcessLabels | None = None,
) -> list[Window]:
    """Windows at a time, of living processes whose labels are known."""
    labels = dict.fromkeys(totals, who or process_labels())
    return builder.build(ProcessTotals(at(seconds), dict(totals), labels, switches or {}))


class TestDifferences:
    def test_first_window_has_everything_since_the_start(self) -> None:
        """Kernel counters start at 0."""
        (window,) = build(WindowBuilder(at(0)), 10, {1: calls(5, {100: 5}, 50)})

        assert window.operations == (OperationTime(*SYNC, 5, 0, HistogramTotal(Counts.of([5], 100), 50)),)
        assert (window.began_unix_ns, window.ended_unix_ns) == (at(0).unix_ns, at(10).unix_ns)

    def test_next_window_has_what_was_added(self) -> None:
        """Bucket by bucket."""
        builder = WindowBuilder(at(0))
        build(builder, 10, {1: calls(5, {100: 5}, 50)})
        (window,) = build(builder, 20, {1: calls(12, {100: 6, 110: 6}, 170)})

        assert window.operations == (OperationTime(*SYNC, 7, 0, HistogramTotal(Counts.of([1, *[0] * 9, 6], 100), 120)),)
        assert (window.began_unix_ns, window.ended_unix_ns) == (at(10).unix_ns, at(20).unix_ns)

    def test_counted_calls_are_more_than_timed_ones(self) -> None:
        """One launch in 64 may be timed."""
        (window,) = build(WindowBuilder(at(0)), 10, {1: calls(640, {100: 10}, 50)})

        assert (window.operations[0].calls, window.operations[0].timed.counts.total) == (640, 10)

    def test_process_that_did_nothing_has_no_window(self) -> None:
        """Although the thread time of its threads grew."""
        builder = WindowBuilder(at(0))
        resting: dict[Series, Total] = calls(5, {100: 5}, 50)
        build(builder, 10, {1: resting})

        assert build(builder, 20, {1: {**resting, Series(catalog.sched.THREAD_TIME, ("gap", "sleep")): 10**10}}) == []

    def test_steps_and_losses_are_those_of_the_window(self) -> None:
        """By cause, and by culprit if there is one."""
        builder = WindowBuilder(at(0))

        def totals(steps: int, contention_ns: int) -> dict[Series, Total]:
            return {
                Series(catalog.sched.STEP_DURATION, ()): HistogramTotal(Counts.of([steps], 150), steps * 20 * MS),
                Series(catalog.sched.LOST, ("cpu_contention",)): contention_ns,
                Series(catalog.sched.LOST, ("lock",)): 7,
                Series(catalog.sched.CULPRIT, ("cpu_contention", "stress-ng")): contention_ns,
                Series(catalog.sched.CULPRIT, ("lock", "")): 7,
            }

        build(builder, 10, {1: totals(100, 1000)})
        (window,) = build(builder, 20, {1: totals(350, 5000)})

        assert window.steps == HistogramTotal(Counts.of([250], 150), 250 * 20 * MS)
        assert window.lost_ns == {"cpu_contention": 4000}
        assert window.culprits_ns == (("cpu_contention", "stress-ng", 4000),)

    def test_thread_time_is_that_of_calls_and_of_gaps_between_them(self) -> None:
        """Only of threads that feed the GPU."""
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
        (window,) = build(WindowBuilder(at(0)), 10, {1: totals})

        assert window.states_ns == {"runnable": 11}

    def test_ignored_operations_are_all_intervals_but_gaps(self) -> None:
        assert {INTERVAL_LABEL[kind] for kind in IntervalKind} - {"gap"} == _IGNORED_OPERATIONS

    def test_switches_are_those_of_the_window(self) -> None:
        """0 if the sum has shrunk, because a thread has ended."""
        builder = WindowBuilder(at(0))
        build(builder, 10, {1: calls(1, {100: 1}, 5)}, {1: Switches(50, 20)})
        (window,) = build(builder, 20, {1: calls(2, {100: 2}, 10)}, {1: Switches(80, 19)})

        assert window.switches == Switches(30, 0)


class TestOperations:
    def test_longest_operations_are_named_and_the_others_are_one(self) -> None:
        """Ten operations: the two shortest are `other`."""
        totals: dict[Series, Total] = {}
        for number in range(MAX_OPERATIONS + 2):
            totals |= calls(1, {100: 1}, 1000 + number, ("runtime", f"op{number}"))
        (window,) = build(WindowBuilder(at(0)), 10, {1: totals})

        assert [one.name for one in window.operations] == [f"op{number}" for number in range(9, 1, -1)] + ["other"]
        assert (window.operations[-1].calls, window.operations[-1].timed.sum_ns) == (2, 2001)

    def test_operation_that_failed_is_named_however_short(self) -> None:
        """Errors of all codes are added up."""
        totals: dict[Series, Total] = {
            Series(catalog.cuda.OPERATION_ERRORS, ("runtime", "cudaMalloc", "2")): 3,
            Series(catalog.cuda.OPERATION_ERRORS, ("runtime", "cudaMalloc", "700")): 1,
        }
        totals |= calls(4, {90: 4}, 1, ("runtime", "cudaMalloc"))
        for number in range(MAX_OPERATIONS):
            totals |= calls(1, {100: 1}, 1000, ("runtime", f"op{number}"))
        (window,) = build(WindowBuilder(at(0)), 10, {1: totals})

        assert (window.operations[0].name, window.operations[0].errors) == ("cudaMalloc", 4)

    def test_communicators_of_nccl_are_one_operation(self) -> None:
        """Its calls are counted by histograms only."""
        totals: dict[Series, Total] = {
            Series(catalog.nccl.OPERATION_DURATION, ("ncclAllReduce", communicator)): HistogramTotal(
                Counts.of([3], 80), 30
            )
            for communicator in ("0", "1")
        }
        (window,) = build(WindowBuilder(at(0)), 10, {1: totals})

        assert window.operations == (
            OperationTime("nccl", "ncclAllReduce", 6, 0, HistogramTotal(Counts.of([6], 80), 60)),
        )


class TestProcesses:
    def test_process_that_ended_is_in_the_next_windows_once(self) -> None:
        builder = WindowBuilder(at(0))
        build(builder, 10, {1: calls(5, {100: 5}, 50)})
        builder.end_process(1, process_labels(), calls(8, {100: 8}, 80), Switches(0, 0))
        (last,) = build(builder, 20, {})

        assert last.operations[0].calls == 3
        assert build(builder, 30, {}) == []

    def test_process_that_started_and_ended_between_two_windows_is_recorded(self) -> None:
        builder = WindowBuilder(at(0))
        builder.end_process(1, process_labels("5"), calls(8, {100: 8}, 80), Switches(4, 2))
        (window,) = build(builder, 10, {})

        assert (window.labels.identity.rank, window.operations[0].calls, window.switches) == ("5", 8, Switches(4, 2))

    def test_process_without_labels_waits(self) -> None:
        """What it did is in the window after its labels are known."""
        builder = WindowBuilder(at(0))
        totals = {1: calls(5, {100: 5}, 50)}
        builder.build(ProcessTotals(at(10), totals, {}, {}))
        (window,) = build(builder, 20, totals)

        assert window.operations[0].calls == 5

    def test_processes_beyond_the_limit_are_dropped_and_counted(self) -> None:
        """The first ones stay, so that none is recorded in part."""
        builder = WindowBuilder(at(0))
        totals = {number: calls(1, {100: 1}, 5) for number in range(MAX_PROCESSES + 3)}
        windows = build(builder, 10, totals)

        assert [window.process for window in windows] == list(range(MAX_PROCESSES))
        assert builder.dropped == 3

    def test_process_that_ended_makes_room_for_another(self) -> None:
        builder = WindowBuilder(at(0))
        totals = {number: calls(1, {100: 1}, 5) for number in range(MAX_PROCESSES + 1)}
        build(builder, 10, totals)
        builder.end_process(0, process_labels(), totals.pop(0), Switches(0, 0))
        build(builder, 20, totals)
        windows = build(builder, 30, totals)

        assert [window.process for window in windows] == [MAX_PROCESSES]
