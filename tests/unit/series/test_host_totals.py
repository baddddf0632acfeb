"""Totals by place never go back, whatever their sources do."""

from __future__ import annotations

from exporter import catalog
from exporter.model import Identity
from exporter.series.host_totals import HostTotals
from exporter.totals import Counts, HistogramTotal, Series

S = 1_000_000_000
BYTES = Series(catalog.block.BYTES, ("sda", "read"))
TIMES = Series(catalog.block.QUEUE_DURATION, ("sda", "read"))
JOB, OTHER_JOB = Identity("gpu7", container="job"), Identity("gpu7", container="another")


def books(max_places: int = 8) -> HostTotals:
    """In the first round."""
    found = HostTotals(ttl_ns=60 * S, max_places=max_places)
    found.begin(1 * S)
    return found


class TestCounters:
    """As their sources tell them."""

    def test_two_sources_of_a_place_add_up(self) -> None:
        """Two control groups of one container."""
        found = books()
        found.count("a", JOB, BYTES, 10)
        found.count("b", JOB, BYTES, 5)

        assert found.totals() == {JOB: {BYTES: 15}}

    def test_what_was_counted_before_is_not_counted_again(self) -> None:
        """The source is cumulative."""
        found = books()
        for total in (10, 10, 12):
            found.count("a", JOB, BYTES, total)

        assert found.totals() == {JOB: {BYTES: 12}}
        assert found.resets == 0

    def test_source_that_goes_back_begins_anew_and_is_counted(self) -> None:
        """A device that came again under its name: no negative rate."""
        found = books()
        for total in (100, 30):
            found.count("a", JOB, BYTES, total)

        assert found.totals() == {JOB: {BYTES: 130}}
        assert found.resets == 1

    def test_source_that_is_gone_leaves_what_it_had(self) -> None:
        """Its container runs on."""
        found = books()
        found.count("a", JOB, BYTES, 10)
        found.begin(30 * S)
        found.count("b", JOB, BYTES, 1)

        assert found.totals() == {JOB: {BYTES: 11}}

    def test_new_name_counts_from_there(self) -> None:
        """A container is named by the orchestrator after it has begun: nothing counts twice."""
        found = books()
        found.count("a", JOB, BYTES, 10)
        found.count("a", OTHER_JOB, BYTES, 14)

        assert found.totals() == {JOB: {BYTES: 10}, OTHER_JOB: {BYTES: 4}}

    def test_histograms_add_up_slot_by_slot(self) -> None:
        """Of two sources."""
        found = books()
        found.count("a", JOB, TIMES, HistogramTotal(Counts(3, (1, 2)), 30))
        found.count("b", JOB, TIMES, HistogramTotal(Counts(4, (5,)), 50))

        assert found.totals() == {JOB: {TIMES: HistogramTotal(Counts(3, (1, 7)), 80)}}

    def test_histogram_with_fewer_calls_begins_anew(self) -> None:
        """As a counter does."""
        found = books()
        found.count("a", JOB, TIMES, HistogramTotal(Counts(3, (4,)), 40))
        found.count("a", JOB, TIMES, HistogramTotal(Counts(3, (1,)), 10))

        assert found.totals() == {JOB: {TIMES: HistogramTotal(Counts(3, (5,)), 50)}}
        assert found.resets == 1


class TestLevels:
    """Gauges."""

    def test_sources_of_a_place_add_up_and_end_with_the_round(self) -> None:
        """What nobody tells any more is not there."""
        found = books()
        found.level(JOB, BYTES, 3)
        found.level(JOB, BYTES, 4)

        assert found.totals() == {JOB: {BYTES: 7}}
        found.begin(2 * S)
        assert found.totals() == {}


class TestBounds:
    """On the number of places, and the time they stay."""

    def test_containers_beyond_the_room_are_one(self) -> None:
        """The machine itself has always room."""
        found = books(max_places=1)
        machine = Identity("gpu7")
        for place in (JOB, OTHER_JOB, machine):
            found.count(place, place, BYTES, 1)

        assert found.totals() == {JOB: {BYTES: 1}, Identity("gpu7", container="other"): {BYTES: 1}, machine: {BYTES: 1}}

    def test_place_of_which_nothing_is_heard_is_gone_after_its_time(self) -> None:
        """A minute."""
        found = books()
        found.count("a", JOB, BYTES, 10)
        found.begin(61 * S)
        assert found.totals() == {JOB: {BYTES: 10}}
        found.begin(62 * S)
        assert found.totals() == {}

    def test_place_that_comes_again_counts_from_what_its_source_says(self) -> None:
        """Whatever was before it was gone."""
        found = books()
        found.count("a", JOB, BYTES, 10)
        found.begin(100 * S)
        found.totals()
        found.begin(101 * S)
        found.count("a", JOB, BYTES, 12)

        assert found.totals() == {JOB: {BYTES: 12}}
