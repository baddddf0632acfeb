"""host_totals: totals of containers and of the node never go back, whatever their sources do."""

from __future__ import annotations

import pytest

from exporter import catalog
from exporter.model import Identity
from exporter.series.host_totals import HostTotals
from exporter.totals import Counts, HistogramTotal, Series

S = 1_000_000_000
BYTES = Series(catalog.block.BYTES, ("sda", "read"))
TIMES = Series(catalog.block.QUEUE_DURATION, ("sda", "read"))
NODE = Identity("gpu7")
JOB, OTHER_JOB = Identity("gpu7", container="job"), Identity("gpu7", container="another")


def started(max_containers: int = 8) -> HostTotals:
    """In the first round."""
    totals = HostTotals(ttl_ns=60 * S, max_containers=max_containers)
    totals.begin(1 * S)
    return totals


class TestCounters:
    def test_two_sources_of_a_container_add_up(self) -> None:
        """Such as two cgroups of one container."""
        totals = started()
        totals.add_counter("a", JOB, BYTES, 10)
        totals.add_counter("b", JOB, BYTES, 5)

        assert totals.totals() == {JOB: {BYTES: 15}}

    def test_what_was_counted_before_is_not_counted_again(self) -> None:
        """The source is cumulative."""
        totals = started()
        for total in (10, 10, 12):
            totals.add_counter("a", JOB, BYTES, total)

        assert totals.totals() == {JOB: {BYTES: 12}}
        assert totals.resets == 0

    def test_source_that_starts_over_adds_its_new_count(self) -> None:
        """A disk that came back under its name: the sum grows by 30, and the reset is counted."""
        totals = started()
        for total in (100, 30):
            totals.add_counter("a", JOB, BYTES, total)

        assert totals.totals() == {JOB: {BYTES: 130}}
        assert totals.resets == 1

    def test_counts_of_a_source_that_is_gone_stay(self) -> None:
        totals = started()
        totals.add_counter("a", JOB, BYTES, 10)
        totals.begin(30 * S)
        totals.add_counter("b", JOB, BYTES, 1)

        assert totals.totals() == {JOB: {BYTES: 11}}

    def test_ended_source_counts_from_zero_when_it_comes_back(self) -> None:
        """And that is no reset."""
        totals = started()
        totals.add_counter("a", JOB, BYTES, 10)
        totals.end_source("a", [BYTES])
        totals.add_counter("a", JOB, BYTES, 4)

        assert totals.totals() == {JOB: {BYTES: 14}}
        assert totals.resets == 0

    def test_renamed_container_continues_from_its_old_count(self) -> None:
        """A container gets its name from the orchestrator after it has started: nothing counts twice."""
        totals = started()
        totals.add_counter("a", JOB, BYTES, 10)
        totals.add_counter("a", OTHER_JOB, BYTES, 14)

        assert totals.totals() == {JOB: {BYTES: 10}, OTHER_JOB: {BYTES: 4}}

    def test_histograms_add_up_slot_by_slot(self) -> None:
        totals = started()
        totals.add_counter("a", JOB, TIMES, HistogramTotal(Counts(3, (1, 2)), 30))
        totals.add_counter("b", JOB, TIMES, HistogramTotal(Counts(4, (5,)), 50))

        assert totals.totals() == {JOB: {TIMES: HistogramTotal(Counts(3, (1, 7)), 80)}}

    def test_histogram_with_fewer_calls_has_started_over(self) -> None:
        totals = started()
        totals.add_counter("a", JOB, TIMES, HistogramTotal(Counts(3, (4,)), 40))
        totals.add_counter("a", JOB, TIMES, HistogramTotal(Counts(3, (1,)), 10))

        assert totals.totals() == {JOB: {TIMES: HistogramTotal(Counts(3, (5,)), 50)}}
        assert totals.resets == 1


class TestGauges:
    def test_sources_of_a_container_add_up_and_end_with_the_round(self) -> None:
        totals = started()
        totals.add_gauge(JOB, BYTES, 3)
        totals.add_gauge(JOB, BYTES, 4)

        assert totals.totals() == {JOB: {BYTES: 7}}
        totals.begin(2 * S)
        assert totals.totals() == {}


class TestBounds:
    def test_containers_beyond_the_limit_share_one_identity(self) -> None:
        """The node is no container, and always has room."""
        totals = started(max_containers=1)
        for identity in (JOB, OTHER_JOB, NODE):
            totals.add_counter(identity, identity, BYTES, 1)

        assert totals.totals() == {JOB: {BYTES: 1}, Identity("gpu7", container="other"): {BYTES: 1}, NODE: {BYTES: 1}}

    def test_container_that_has_ended_makes_room(self, caplog: pytest.LogCaptureFixture) -> None:
        """A minute after its last source, long before its TTL. Until then others share one; that is logged once."""
        totals = HostTotals(ttl_ns=900 * S, max_containers=1)
        found = []
        for seconds in (1, 2, 60, 61):
            totals.begin(seconds * S)
            source = JOB if seconds == 1 else OTHER_JOB
            totals.add_counter(source, source, BYTES, seconds)
            found.append(totals.totals())
        other = Identity("gpu7", container="other")

        assert found[2] == {JOB: {BYTES: 1}, other: {BYTES: 60}}
        assert found[3] == {OTHER_JOB: {BYTES: 1}, other: {BYTES: 60}}
        assert len(caplog.records) == 1

    def test_container_with_a_source_keeps_its_place(self) -> None:
        """Also when scrapes are rare, and another container comes first in one."""
        totals = HostTotals(ttl_ns=900 * S, max_containers=1)
        for seconds in (1, 100, 200):
            totals.begin(seconds * S)
            for source in (JOB, OTHER_JOB) if seconds == 1 else (OTHER_JOB, JOB):
                totals.add_counter(source, source, BYTES, 1)

        assert totals.totals().keys() == {JOB, Identity("gpu7", container="other")}

    def test_identity_expires_a_ttl_after_its_last_source(self) -> None:
        """One minute, here."""
        totals = started()
        totals.add_counter("a", JOB, BYTES, 10)
        totals.begin(61 * S)
        assert totals.totals() == {JOB: {BYTES: 10}}
        totals.begin(62 * S)
        assert totals.totals() == {}

    def test_identity_that_returns_counts_all_that_its_source_has(self) -> None:
        """Whatever was counted before it expired is gone."""
        totals = started()
        totals.add_counter("a", JOB, BYTES, 10)
        totals.begin(100 * S)
        totals.totals()
        totals.begin(101 * S)
        totals.add_counter("a", JOB, BYTES, 12)

        assert totals.totals() == {JOB: {BYTES: 12}}
