"""history.windowing: windows from cumulative totals, of processes that come and go."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter import catalog
from exporter.accounting.thread_time import INTERVAL_LABEL
from exporter.history.communicator_windows import LagKey
from exporter.history.window import CommunicatorWindow, OperationTime, ProcessLabels, Switches, Window
from exporter.history.windowing import (
    _IGNORED_OPERATIONS,
    MAX_OPERATIONS,
    MAX_PROCESSES,
    EndedProcess,
    ProcessTotals,
    WindowBuilder,
)
from exporter.kernel.abi import IntervalKind
from exporter.python.call_site import OTHER_STACKS, CallSite
from exporter.totals import Counts, HistogramTotal, Series, Total
from tests.support.history import MS, a_call_site, a_membership, process_labels
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
        builder.end_process(EndedProcess(1, process_labels(), calls(8, {100: 8}, 80), Switches(0, 0)))
        (last,) = build(builder, 20, {})

        assert last.operations[0].calls == 3
        assert build(builder, 30, {}) == []

    def test_process_that_started_and_ended_between_two_windows_is_recorded(self) -> None:
        builder = WindowBuilder(at(0))
        builder.end_process(EndedProcess(1, process_labels("5"), calls(8, {100: 8}, 80), Switches(4, 2)))
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
        """The first ones stay, where all have run."""
        builder = WindowBuilder(at(0))
        totals = {number: calls(1, {100: 1}, 5) for number in range(MAX_PROCESSES + 3)}
        windows = build(builder, 10, totals, dict.fromkeys(totals, Switches(1, 0)))

        assert [window.process for window in windows] == list(range(MAX_PROCESSES))
        assert builder.dropped == 3

    def test_call_sites_have_what_was_added(self) -> None:
        """4 slow calls in the first window, 23 more in the second, none in the third."""
        sites = [a_call_site(calls=4)]
        builder = WindowBuilder(at(0), lambda _process: tuple(sites))
        found = [build(builder, 10, {1: calls(5, {100: 5}, 50)})[0].call_sites]
        sites[:] = [a_call_site(calls=27)]
        found.append(build(builder, 20, {1: calls(6, {100: 6}, 60)})[0].call_sites)
        found.append(build(builder, 30, {1: calls(7, {100: 7}, 70)})[0].call_sites)

        assert found == [(a_call_site(calls=4),), (a_call_site(calls=23),), ()]

    def test_call_sites_with_little_time_are_added_up(self) -> None:
        """Eight are recorded by line."""
        sites = [a_call_site(line, calls=line) for line in range(1, 12)]
        (window,) = build(WindowBuilder(at(0), lambda _process: sites), 10, {1: calls(5, {100: 5}, 50)})

        assert [one.calls for one in window.call_sites] == [11, 10, 9, 8, 7, 6, 5, 4, 6]
        assert window.call_sites[8] == CallSite("", "other", 0, 6, 300_000_000, OTHER_STACKS)

    def test_process_that_ended_has_its_last_slow_calls(self) -> None:
        builder = WindowBuilder(at(0), lambda _process: (a_call_site(),))
        builder.end_process(EndedProcess(1, process_labels(), calls(8, {100: 8}, 80), Switches(0, 0)))
        (window,) = build(builder, 10, {})

        assert window.call_sites == (a_call_site(),)

    def test_process_that_ends_while_its_totals_are_read_has_one_window(self) -> None:
        """With its last totals: two windows would have the same id."""
        builder = WindowBuilder(at(0))
        builder.end_process(EndedProcess(1, process_labels(), calls(23, {100: 23}, 230), Switches(0, 0)))
        (window,) = build(builder, 10, {1: calls(20, {100: 20}, 200)})

        assert window.operations[0].calls == 23
        assert build(builder, 20, {}) == []

    def test_idle_processes_leave_their_places_to_those_that_run(self) -> None:
        """All of one tenant. A process that was left out before has its windows from the next one on."""
        builder = WindowBuilder(at(0))
        totals = {number: calls(1, {100: 1}, 5) for number in range(MAX_PROCESSES + 1)}
        last, resting = MAX_PROCESSES, dict.fromkeys(totals, Switches(1, 0))
        found = []
        for seconds in (10, 20, 30):
            totals[last] = calls(seconds, {100: seconds}, 5)
            windows = build(builder, seconds, totals, resting | {last: Switches(seconds, 0)})
            found.append([window.operations[0].calls for window in windows if window.process == last])

        assert found == [[], [], [10]]

    @pytest.mark.parametrize("has_ended", [False, True])
    def test_tenant_with_many_processes_does_not_take_the_places_of_others(self, has_ended: bool) -> None:
        """All of them run; the other's came last."""
        builder = WindowBuilder(at(0))
        many, other = process_labels(container="many"), process_labels(container="other")
        labels = dict.fromkeys(range(MAX_PROCESSES + 40), many) | {999: other}
        totals: dict[int, dict[Series, Total]] = {number: calls(1, {100: 1}, 5) for number in labels}
        if has_ended:
            for number in (999, *range(MAX_PROCESSES + 40)):
                builder.end_process(EndedProcess(number, labels[number], totals[number], Switches(1, 0)))
            windows = builder.build(ProcessTotals(at(10), {}, {}, {}))
        else:
            windows = builder.build(ProcessTotals(at(10), totals, labels, dict.fromkeys(labels, Switches(1, 0))))

        assert len(windows) == MAX_PROCESSES
        assert 999 in [window.process for window in windows]
        assert builder.dropped == 41

    def test_process_that_ended_makes_room_for_another(self) -> None:
        builder = WindowBuilder(at(0))
        totals = {number: calls(1, {100: 1}, 5) for number in range(MAX_PROCESSES + 1)}
        build(builder, 10, totals)
        builder.end_process(EndedProcess(0, process_labels(), totals.pop(0), Switches(0, 0)))
        build(builder, 20, totals)
        totals[MAX_PROCESSES] = calls(24, {100: 24}, 5)
        (window,) = build(builder, 30, totals)

        assert (window.process, window.operations[0].calls) == (MAX_PROCESSES, 23)


class TestProbeCosts:
    """What probes cost the threads of a process."""

    @staticmethod
    def built(builder: WindowBuilder, seconds: float, costs_ns: dict[int, int]) -> int | None:
        """The cost in the only window."""
        totals = {1: calls(int(seconds), {100: int(seconds)}, 50)}
        (window,) = builder.build(
            ProcessTotals(at(seconds), totals, {1: process_labels()}, {}, probe_costs_ns=costs_ns)
        )
        return window.probe_cost_ns

    def test_cost_is_that_of_the_window(self) -> None:
        builder = WindowBuilder(at(0))

        assert [self.built(builder, 10, {1: 40 * MS}), self.built(builder, 20, {1: 70 * MS})] == [40 * MS, 30 * MS]

    def test_cost_that_was_not_known_before_or_is_not_known_now_is_unknown(self) -> None:
        builder = WindowBuilder(at(0))
        self.built(builder, 10, {1: 40 * MS})

        assert [self.built(builder, 20, {}), self.built(builder, 30, {1: 70 * MS})] == [None, None]

    def test_process_that_ended_has_its_last_cost(self) -> None:
        builder = WindowBuilder(at(0))
        self.built(builder, 10, {1: 40 * MS})
        builder.end_process(
            EndedProcess(1, process_labels(), calls(23, {100: 23}, 230), Switches(0, 0), probe_cost_ns=45 * MS)
        )
        (window,) = build(builder, 20, {})

        assert window.probe_cost_ns == 5 * MS


class TestCommunicators:
    """Places of processes in communicators."""

    def test_window_has_those_of_its_process(self) -> None:
        """Its lag is not known: no other rank is here."""
        totals = {1: calls(5, {100: 5}, 50)}
        living = ProcessTotals(at(10), totals, {1: process_labels()}, {}, memberships=[a_membership()])
        (window,) = WindowBuilder(at(0)).build(living)

        assert window.communicators == (CommunicatorWindow(77, 3, 16, 41, None),)

    def test_process_that_ended_has_its_last_ones(self) -> None:
        """And how late it came until then, after 30 ms before: its job is known by them, however short it was."""
        builder = WindowBuilder(at(0))
        first, second = a_membership(process=1, rank=3), a_membership(process=2, rank=4)
        labels, totals = dict.fromkeys((1, 2), process_labels()), {1: calls(5, {100: 5}, 50), 2: calls(5, {100: 5}, 50)}
        lags_ns = {LagKey(2, 77): 30 * MS}
        builder.build(ProcessTotals(at(10), totals, labels, {}, memberships=[first, second], lags_ns=lags_ns))
        last = second._replace(collectives=42)
        builder.end_process(
            EndedProcess(2, process_labels(), calls(6, {100: 6}, 60), Switches(0, 0), [last], {LagKey(2, 77): 100 * MS})
        )
        (window,) = builder.build(ProcessTotals(at(20), totals, {1: process_labels()}, {}, memberships=[first]))

        assert window.communicators == (CommunicatorWindow(77, 4, 16, 42, 70 * MS),)
