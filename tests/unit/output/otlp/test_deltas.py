"""otlp.deltas: increases since the last delivered push, whatever happens to pushes and series."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from exporter import catalog
from exporter.catalog import Metric
from exporter.model import Exemplar, Histogram
from exporter.output.otlp.deltas import MAX_ENDED, Deltas
from exporter.output.otlp.points import DataPoint
from tests.support.records import STARTED_UNIX_NS, TRAINER, histogram_of

Value = int | float | Histogram

SLOW = Exemplar((("pid", "4026"), ("tid", "4031")), 0.25, STARTED_UNIX_NS + 1)
SLOWER = Exemplar((("pid", "4026"), ("tid", "4031")), 0.75, STARTED_UNIX_NS + 2)


def second(number: float) -> int:
    """A time of day, in seconds after the start."""
    return STARTED_UNIX_NS + int(number * 1e9)


def series(value: Value, metric: Metric = catalog.cuda.OPERATIONS, operation: str = "cudaMalloc") -> DataPoint:
    """A cumulative point, of a counter by default."""
    return DataPoint(metric, TRAINER, ("runtime", operation), value, STARTED_UNIX_NS)


def durations(counts: dict[int, int], sum_seconds: float, exemplar: Exemplar | None = None) -> DataPoint:
    """A cumulative histogram."""
    return series(
        Histogram(histogram_of(counts).counts, sum_seconds, exemplar),
        catalog.cuda.OPERATION_DURATION,
    )


def episode(at_second: float) -> Exemplar:
    """The exemplar of a counter."""
    return Exemplar((("trace_id", "1" * 32), ("span_id", "1" * 16)), 0.25, second(at_second))


def counted(points: Iterable[DataPoint]) -> list[tuple[Value, int]]:
    """Value and start of each."""
    return [(point.value, point.start_unix_ns) for point in points]


def delivering(*pushes: tuple[Iterable[DataPoint], float]) -> Deltas:
    """Deltas after pushes that were delivered: the points of each, and its second."""
    deltas = Deltas()
    for points, at_second in pushes:
        deltas.delivered(deltas.collect(points, second(at_second)))
    return deltas


class TestDelivered:
    """A receiver that accepts every push."""

    def test_first_delta_is_all_there_has_been(self) -> None:
        """Since the start of the series."""
        assert counted(Deltas().collect([series(5)], second(10))) == [(5, second(0))]

    def test_next_delta_is_what_came_since(self) -> None:
        """12 less 5; it starts where the one before ended."""
        deltas = delivering(([series(5)], 10))

        assert counted(deltas.collect([series(12)], second(25))) == [(7, second(10))]

    def test_series_that_did_not_change_is_not_sent(self) -> None:
        """Nothing is no delta."""
        deltas = delivering(([series(5), series(5, operation="cudaFree")], 10))

        assert counted(deltas.collect([series(5), series(6, operation="cudaFree")], second(25))) == [(1, second(10))]

    def test_delta_after_a_pause_starts_at_the_last_collection(self) -> None:
        """Nothing came until second 25, which was seen."""
        deltas = delivering(([series(5)], 10), ([series(5)], 25))

        assert counted(deltas.collect([series(6)], second(40))) == [(1, second(25))]

    def test_counter_of_zero_is_not_sent(self) -> None:
        """Neither at first nor later."""
        deltas = Deltas()

        assert deltas.collect([series(0)], second(10)) == []
        assert deltas.collect([series(0)], second(25)) == []

    def test_new_series_starts_at_the_last_collection(self) -> None:
        """It was not there at second 10, though its identity was."""
        deltas = delivering(([series(5)], 10))

        found = deltas.collect([series(5), series(3, operation="cudaFree")], second(25))
        assert counted(found) == [(3, second(10))]

    def test_series_of_a_new_identity_starts_with_it(self) -> None:
        """A rank that came at second 20 has counted since then."""
        deltas = delivering(([series(5)], 10))
        new = series(3, operation="cudaFree")._replace(start_unix_ns=second(20))

        assert counted(deltas.collect([series(5), new], second(25))) == [(3, second(20))]

    def test_points_keep_all_else(self) -> None:
        """Metric, identity and labels."""
        deltas = delivering(([series(5)], 10))

        assert deltas.collect([series(12)], second(25)) == [series(7)._replace(start_unix_ns=second(10))]


class TestUndelivered:
    """A receiver that is away for a while."""

    def test_undelivered_deltas_add_up_and_keep_the_earlier_start(self) -> None:
        """5, then 7, then 1: one delta over all the time."""
        deltas = Deltas()
        deltas.collect([series(5)], second(10))
        deltas.collect([series(12)], second(25))

        assert counted(deltas.collect([series(13)], second(40))) == [(13, second(0))]

    def test_undelivered_delta_is_sent_again_without_an_increase(self) -> None:
        deltas = delivering(([series(5)], 10))
        deltas.collect([series(12)], second(25))

        assert counted(deltas.collect([series(12)], second(40))) == [(7, second(10))]

    def test_delta_is_removed_once_delivered(self) -> None:
        """Nothing is counted twice."""
        deltas = Deltas()
        deltas.collect([series(5)], second(10))
        deltas.delivered(deltas.collect([series(12)], second(25)))

        assert deltas.collect([series(12)], second(40)) == []

    def test_one_request_of_two_may_be_delivered(self) -> None:
        """The points of the other one are sent again."""
        deltas = Deltas()
        first, _ = deltas.collect([series(5), series(6, operation="cudaFree")], second(10))
        deltas.delivered([first])

        again = deltas.collect([series(5), series(6, operation="cudaFree")], second(25))
        assert [point.labels for point in again] == [("runtime", "cudaFree")]

    def test_histograms_add_up(self) -> None:
        """Slot by slot, and their sums."""
        deltas = Deltas()
        deltas.collect([durations({8: 2}, 0.5)], second(10))

        found = deltas.collect([durations({8: 3, 9: 1}, 1.25)], second(25))
        assert counted(found) == [(histogram_of({8: 3, 9: 1}, 1.25), second(0))]


class TestHistograms:
    """Counts, sums, exemplars."""

    def test_delta_is_slot_by_slot(self) -> None:
        """One call of 0.75 s came to two."""
        deltas = delivering(([durations({8: 2}, 0.5)], 10))

        found = deltas.collect([durations({8: 2, 9: 1}, 1.25)], second(25))
        assert counted(found) == [(histogram_of({9: 1}, 0.75), second(10))]

    def test_new_exemplar_is_sent_with_the_delta(self) -> None:
        """It is one of the new calls."""
        deltas = delivering(([durations({8: 1}, 0.25, SLOW)], 10))
        (found,) = deltas.collect([durations({8: 2}, 1.0, SLOWER)], second(25))

        assert isinstance(found.value, Histogram)
        assert found.value.exemplar == SLOWER

    def test_exemplar_that_was_there_before_is_not_sent_again(self) -> None:
        """It is a call of an earlier delta."""
        deltas = delivering(([durations({8: 1}, 0.25, SLOW)], 10))
        (found,) = deltas.collect([durations({8: 2}, 0.5, SLOW)], second(25))

        assert isinstance(found.value, Histogram)
        assert found.value.exemplar is None

    def test_waiting_exemplar_stays_until_a_newer_one_comes(self) -> None:
        """Deltas that were added have one."""
        deltas = Deltas()
        deltas.collect([durations({8: 1}, 0.25, SLOW)], second(10))
        (later,) = deltas.collect([durations({8: 2}, 0.5, None)], second(25))
        (latest,) = deltas.collect([durations({8: 3}, 1.25, SLOWER)], second(40))

        assert isinstance(later.value, Histogram)
        assert isinstance(latest.value, Histogram)
        assert (later.value.exemplar, latest.value.exemplar) == (SLOW, SLOWER)

    def test_exemplar_of_a_counter_is_sent_with_its_delta(self) -> None:
        """Unless it is older than the delta."""
        deltas = delivering(([series(5)._replace(exemplar=episode(10))], 10))
        (later,) = deltas.collect([series(6)._replace(exemplar=episode(9))], second(25))
        (latest,) = deltas.collect([series(7)._replace(exemplar=episode(30))], second(40))

        assert (later.value, later.exemplar) == (1, None)
        assert (latest.value, latest.exemplar) == (2, episode(30))

    def test_waiting_exemplar_of_a_counter_stays_until_a_newer_one_comes(self) -> None:
        """Both deltas have been added."""
        deltas = Deltas()
        deltas.collect([series(5)._replace(exemplar=episode(1))], second(10))
        (later,) = deltas.collect([series(6)], second(25))
        (latest,) = deltas.collect([series(7)._replace(exemplar=episode(30))], second(40))

        assert (later.exemplar, latest.exemplar) == (episode(1), episode(30))

    def test_exemplar_alone_is_no_delta(self) -> None:
        """An exemplar that has expired is not an increase."""
        deltas = delivering(([durations({8: 1}, 0.25, SLOW)], 10))

        assert deltas.collect([durations({8: 1}, 0.25, None)], second(25)) == []

    def test_time_without_a_call_is_sent_with_the_next_call(self) -> None:
        """The kernel counts a call before it adds its time; a reading falls in between. No sum goes out without a count."""
        deltas = delivering(([durations({8: 2}, 0.25)], 10))

        assert deltas.collect([durations({8: 2}, 0.5)], second(25)) == []
        assert counted(deltas.collect([durations({8: 3}, 0.75)], second(40))) == [
            (histogram_of({8: 1}, 0.5), second(25))
        ]


class TestGauges:
    """Current values."""

    def test_gauges_are_unchanged(self) -> None:
        """Infos too, changed or not."""
        live = DataPoint(catalog.allocator.LIVE, TRAINER, (), 600, STARTED_UNIX_NS)
        info = DataPoint(catalog.nccl.COMMUNICATOR_INFO, TRAINER, ("0", "abc", "0", "2"), 1, STARTED_UNIX_NS)
        deltas = delivering(([live, info], 10))

        assert deltas.collect([live, info], second(25)) == [live, info]

    def test_undelivered_gauges_are_not_kept(self) -> None:
        """Their old value is of no use."""
        deltas = Deltas()
        deltas.collect([DataPoint(catalog.allocator.LIVE, TRAINER, (), 600, STARTED_UNIX_NS)], second(10))

        assert deltas.collect([], second(25)) == []


class TestResets:
    """A series that was reset: it had expired, and its identity has returned."""

    def test_counter_that_fell_was_reset(self) -> None:
        """Never a negative delta."""
        deltas = delivering(([series(5)], 10))

        assert counted(deltas.collect([series(2)], second(25))) == [(2, second(10))]

    def test_histogram_with_a_slot_that_fell_was_reset(self) -> None:
        """Though another slot has grown by more."""
        deltas = delivering(([durations({8: 5}, 1.0)], 10))

        found = deltas.collect([durations({8: 1, 9: 20}, 0.75)], second(25))
        assert counted(found) == [(histogram_of({8: 1, 9: 20}, 0.75), second(10))]

    def test_series_with_a_new_start_was_reset(self) -> None:
        """Its whole total is new."""
        deltas = delivering(([series(5)], 10), ([], 25))
        returned = series(7)._replace(start_unix_ns=second(30))

        assert counted(deltas.collect([returned], second(40))) == [(7, second(30))]

    def test_series_that_returns_with_its_old_start_continues(self) -> None:
        """Its collector had failed; only the increase since is new."""
        deltas = delivering(([series(5)], 10), ([], 25))

        assert counted(deltas.collect([series(7)], second(40))) == [(2, second(25))]

    def test_reset_between_two_pushes_is_recognised_by_the_start(self) -> None:
        """The total is larger than before, and all of it is new."""
        deltas = delivering(([series(5)], 10))
        anew = series(8)._replace(start_unix_ns=second(12))

        assert counted(deltas.collect([anew], second(25))) == [(8, second(12))]

    def test_series_that_fell_to_zero_counts_from_zero(self) -> None:
        """5, nothing, 5: ten in all."""
        deltas = delivering(([series(5)], 10), ([series(0)], 25))

        assert counted(deltas.collect([series(5)], second(40))) == [(5, second(25))]

    def test_undelivered_delta_from_before_a_reset_is_added(self) -> None:
        """5 and then 2, undelivered."""
        deltas = Deltas()
        deltas.collect([series(5)], second(10))

        assert counted(deltas.collect([series(2)], second(25))) == [(7, second(0))]


class TestEndedSeries:
    """Series of identities that have expired."""

    def test_undelivered_delta_of_an_ended_series_is_kept(self) -> None:
        """A job that ended while the receiver was down is not lost."""
        deltas = Deltas()
        deltas.collect([series(5)], second(10))
        deltas.collect([], second(25))

        assert counted(deltas.collect([], second(40))) == [(5, second(0))]

    def test_delivered_delta_of_an_ended_series_is_removed(self) -> None:
        deltas = Deltas()
        deltas.collect([series(5)], second(10))
        deltas.delivered(deltas.collect([], second(25)))

        assert deltas.collect([], second(40)) == []
        assert deltas.forgotten == 0

    def test_number_of_ended_series_is_bounded(self) -> None:
        """A receiver that never returns must not fill the memory; the oldest deltas are dropped and counted."""
        deltas = Deltas()
        deltas.collect([series(1, operation=str(number)) for number in range(2003)], second(10))
        found = deltas.collect([], second(25))

        assert MAX_ENDED == 2000
        assert (deltas.forgotten, [int(point.labels[1]) for point in found]) == (3, list(range(3, 2003)))

    def test_current_series_are_never_dropped(self) -> None:
        """However many they are: the exporter holds them in memory anyway."""
        deltas = Deltas()
        alive = [series(1, operation=str(number)) for number in range(2003)]
        deltas.collect(alive, second(10))

        assert (len(deltas.collect(alive, second(25))), deltas.forgotten) == (2003, 0)


class TestTimeOfDay:
    """A clock that is set back."""

    def test_new_delta_does_not_start_after_it_ends(self) -> None:
        """The last collection was at second 100, which is now in the future."""
        deltas = delivering(([series(5)], 100))
        found = deltas.collect([series(6)], second(40))

        assert counted(found) == [(1, second(40))]

    def test_waiting_delta_does_not_start_after_it_ends(self) -> None:
        """A receiver refuses a point that starts after its time."""
        deltas = delivering(([series(5)], 100))
        deltas.collect([series(6)], second(115))

        assert counted(deltas.collect([series(6)], second(40))) == [(1, second(40))]


OPERATIONS = ("cudaMalloc", "cudaFree", "cudaHostAlloc")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["work", "work", "work", "end", "restart"]),
        st.sampled_from(OPERATIONS),
        st.integers(1, 5),
        st.sets(st.sampled_from(OPERATIONS)),  # whose points the receiver takes of this push
    ),
    max_size=30,
)


def both(operation: str, count: int) -> tuple[DataPoint, DataPoint]:
    """A counter and a histogram of the same calls, of half a second each."""
    return series(count, operation=operation), series(
        histogram_of({8: count // 2, 9: count - count // 2}, count / 2), catalog.cuda.OPERATION_DURATION, operation
    )


def calls_of(points: Iterable[DataPoint]) -> tuple[float, float, float]:
    """The sums of counters, of histograms, and of half seconds."""
    values = [point.value for point in points]
    histograms = [value for value in values if isinstance(value, Histogram)]
    return (
        sum(value for value in values if not isinstance(value, Histogram)),
        sum(sum(value.counts) for value in histograms),
        sum(value.sum_seconds for value in histograms) * 2,
    )


class TestEveryHistory:
    """Random work, ends and resets, with a receiver that accepts random requests."""

    @given(STEPS)
    def test_delivered_and_pending_deltas_add_up_to_the_totals(
        self, steps: list[tuple[str, str, int, set[str]]]
    ) -> None:
        """Nothing is lost, nothing is counted twice."""
        deltas, totals, made = Deltas(), dict[str, int](), 0
        starts = dict.fromkeys(OPERATIONS, STARTED_UNIX_NS)
        delivered: list[DataPoint] = []
        for number, (act, operation, amount, takes) in enumerate(steps):
            if act == "work":
                totals[operation] = totals.get(operation, 0) + amount
                made += amount
            elif act == "end":
                totals.pop(operation, None)
                starts[operation] = second(number)
            elif operation in totals:
                totals[operation] = amount
                starts[operation] = second(number)
                made += amount
            points = [(name, point) for name, count in totals.items() for point in both(name, count)]
            current = [point._replace(start_unix_ns=starts[name]) for name, point in points]
            found = deltas.collect(current, second(number))
            taken = [point for point in found if point.labels[1] in takes]
            deltas.delivered(taken)
            delivered += taken
            assert all(point.start_unix_ns <= second(number) for point in found)
        waiting = deltas.collect([], second(len(steps)))

        assert calls_of([*delivered, *waiting]) == (made, made, made)
