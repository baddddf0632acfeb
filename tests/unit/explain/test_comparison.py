"""comparison: what differs between two spans."""

from __future__ import annotations

from exporter.explain.comparison import Comparison, Difference, WorkloadChange, compared
from exporter.explain.explanation import Explanation, explain
from exporter.history.run import RecordedWindows
from exporter.history.selection import Selection
from exporter.history.window import OperationTime, Window
from tests.support.history import MS, NOON, SECOND, a_run, a_window, process_labels, times


def spanning(*windows: Window, until_seconds: float = 10) -> Explanation:
    """Ten seconds that ended then."""
    return explain(
        [a_run()],
        (),
        [RecordedWindows(1, one.began_unix_ns, one.ended_unix_ns, [one]) for one in windows],
        selection=Selection(),
        since_unix_ns=NOON + round((until_seconds - 10) * SECOND),
        now_unix_ns=NOON + round(until_seconds * SECOND),
        with_operations=True,
    )


def comparison(before: Window | None, now: Window | None) -> Comparison:
    return compared(spanning(*filter(None, [before])), spanning(*filter(None, [now]), until_seconds=60))


def only(before: Window | None, now: Window | None) -> WorkloadChange:
    (found,) = comparison(before, now).workloads
    return found


QUIET = a_window(lost_ns={"lock": 100 * MS}, culprits_ns=())
SLOW = a_window(60, steps=times(250, 40 * MS))


class TestWorkloads:
    def test_same_figures_do_not_differ(self) -> None:
        found = only(a_window(), a_window(60))

        assert not found.is_notable
        assert (found.causes, found.operations) == ((), ())

    def test_longer_steps_differ(self) -> None:
        found = only(QUIET, SLOW)

        assert found.step_ns == Difference(20 * MS, 40 * MS)
        assert found.step_ns.ratio == 2

    def test_cause_that_grew_names_its_culprit(self) -> None:
        """The lock took as much in both spans."""
        (cause,) = only(QUIET, SLOW).causes

        assert (cause.name, cause.change, cause.culprit) == ("cpu_contention", Difference(0.0, 0.09), "stress-ng")

    def test_cause_that_went_away_has_no_culprit(self) -> None:
        (cause,) = only(SLOW, a_window(60, lost_ns={"lock": 100 * MS}, culprits_ns=())).causes

        assert (cause.change, cause.culprit) == (Difference(0.09, 0.0), "")

    def test_operation_that_takes_longer_is_listed(self) -> None:
        operations = (OperationTime("runtime", "cudaStreamSynchronize", 500, 0, times(500, 15 * MS)),)
        (operation,) = only(QUIET, a_window(60, operations=operations)).operations

        assert (operation.name, operation.change) == ("cudaStreamSynchronize", Difference(10 * MS, 15 * MS))

    def test_short_operation_is_not_listed(self) -> None:
        """It takes less than a hundredth of the time in both spans."""
        short = [
            a_window(end, operations=(OperationTime("runtime", "cudaMalloc", 5, 0, times(5, ns)),))
            for end, ns in ((10, MS), (60, 9 * MS))
        ]

        assert only(*short).operations == ()

    def test_workload_of_one_span_is_listed(self) -> None:
        assert [only(QUIET, None).is_in_later, only(None, SLOW).is_in_earlier] == [False, False]
        assert only(None, SLOW).is_notable

    def test_restarted_rank_is_the_same_workload(self) -> None:
        """Its process has another id."""
        found = only(QUIET, a_window(60, labels=process_labels("3", 999), process=9))

        assert (found.is_in_earlier, found.is_in_later, found.labels.tgid) == (True, True, 999)

    def test_processes_without_a_rank_are_distinguished_by_their_ids(self) -> None:
        one, other = (a_window(end, labels=process_labels("", tgid)) for end, tgid in ((10, 1), (60, 2)))

        assert len(comparison(one, other).workloads) == 2

    def test_largest_change_comes_first(self) -> None:
        windows = [a_window(60, labels=process_labels("4", 104), process=2), SLOW]
        before = [a_window(labels=process_labels("4", 104), process=2), QUIET]
        found = compared(spanning(*before), spanning(*windows, until_seconds=60)).workloads

        assert [one.labels.identity.rank for one in found] == ["3", "4"]
