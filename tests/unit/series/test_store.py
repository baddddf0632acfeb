"""store: exported totals never go back when processes start, are renamed and end."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import catalog
from exporter.clock import Moment
from exporter.model import Exemplar, Histogram, Identity
from exporter.series.store import SeriesStore
from exporter.totals import Series, Total, Totals, Trace
from tests.support.records import STARTED_UNIX_NS, at, series_of
from tests.unit.series.stores import (
    CALLS,
    COMMUNICATOR,
    DURATION,
    LIVE,
    NO_RANK,
    RANK_0,
    RANK_1,
    TTL_SECONDS,
    calls_of,
    exported,
    histogram,
    opened,
    value_of,
)


class TestAdding:
    """Running processes."""

    def test_worst_severity_of_two_processes_counts(self) -> None:
        """3 and 2 are not 5; an active chain and a resolved one are an active one."""
        severity, active = (
            Series(metric, ("block_io", "gap")) for metric in (catalog.chains.SEVERITY, catalog.chains.ACTIVE)
        )
        totals: Totals = {1: {severity: 3, active: 1}, 2: {severity: 2, active: 0}}
        families = exported(opened(), totals, {1: RANK_0, 2: RANK_0}, 0.0)

        assert (value_of(families, severity), value_of(families, active)) == (3, 1)

    def test_two_processes_of_one_identity_add_up(self) -> None:
        """Rank 0 and its data loader share their labels."""
        families = exported(opened(), {1: {CALLS: 3}, 2: {CALLS: 4}}, {1: RANK_0, 2: RANK_0}, 0.0)

        assert calls_of(families) == {"0": 7}

    def test_histograms_add_up_slot_by_slot(self) -> None:
        """Counts and sums; the sum leaves in seconds."""
        totals: dict[int, dict[Series, Total]]
        totals = {1: {DURATION: histogram(8, 2, 500_000_000)}, 2: {DURATION: histogram(9, 1, 1_000_000_000)}}

        value = value_of(exported(opened(), totals, {1: RANK_0, 2: RANK_0}, 0.0), DURATION)

        assert isinstance(value, Histogram)
        assert (value.counts[8], value.counts[9], sum(value.counts), value.sum_seconds) == (2, 1, 3, 1.5)

    def test_gauges_add_up(self) -> None:
        families = exported(opened(), {1: {LIVE: 100}, 2: {LIVE: 50}}, {1: RANK_0, 2: RANK_0}, 0.0)

        assert value_of(families, LIVE) == 150

    def test_counter_in_seconds_is_counted_in_nanoseconds(self) -> None:
        """0.1 s and 0.2 s are 0.3 s, unlike in floating point."""
        lost = Series(catalog.sched.LOST, ("block_io",))
        totals: Totals = {1: {lost: 100_000_000}, 2: {lost: 200_000_000}}

        assert value_of(exported(opened(), totals, {1: RANK_0, 2: RANK_0}, 0.0), lost) == 0.3

    def test_info_is_1_for_any_number_of_processes(self) -> None:
        families = exported(opened(), {1: {COMMUNICATOR: 1}, 2: {COMMUNICATOR: 1}}, {1: RANK_0, 2: RANK_0}, 0.0)

        assert value_of(families, COMMUNICATOR) == 1

    def test_each_identity_has_its_series(self) -> None:
        families = exported(opened(), {1: {CALLS: 3}, 2: {CALLS: 4}}, {1: RANK_0, 2: RANK_1}, 0.0)

        assert calls_of(families) == {"0": 3, "1": 4}

    def test_process_without_an_identity_is_held_back(self) -> None:
        assert exported(opened(), {1: {CALLS: 3}}, {}, 0.0) == ()

    def test_families_are_in_the_catalogue_s_order(self) -> None:
        """Whatever the order of the totals."""
        totals: dict[int, dict[Series, Total]] = {1: {COMMUNICATOR: 1, LIVE: 5, CALLS: 3}}

        families = exported(opened(), totals, {1: RANK_0}, 0.0)

        assert [family.metric for family in families] == [
            catalog.cuda.OPERATIONS,
            catalog.nccl.COMMUNICATOR_INFO,
            catalog.allocator.LIVE,
        ]

    def test_two_snapshots_are_equal(self) -> None:
        """A snapshot changes no total."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 3})

        first = exported(store, {2: {CALLS: 4}}, {2: RANK_0}, 0.0)

        assert exported(store, {2: {CALLS: 4}}, {2: RANK_0}, 1.0) == first


class TestEnding:
    """Processes that have ended."""

    def test_counters_and_histograms_stay(self) -> None:
        """They continue for the identity."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 3, DURATION: histogram(8, 3, 9)})

        families = exported(store, {}, {}, 0.0)

        value = value_of(families, DURATION)
        assert isinstance(value, Histogram)
        assert (calls_of(families), value.counts[8]) == ({"0": 3}, 3)

    def test_gauges_and_infos_end(self) -> None:
        """Its memory is freed and its communicators are gone."""
        store = opened()
        store.retire(1, RANK_0, {LIVE: 100, COMMUNICATOR: 1})

        assert exported(store, {}, {}, 0.0) == ()

    def test_next_process_of_the_identity_adds_to_the_counters(self) -> None:
        """A restarted rank is no counter reset."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 3})

        assert calls_of(exported(store, {2: {CALLS: 1}}, {2: RANK_0}, 60.0)) == {"0": 4}

    def test_process_that_ended_while_held_back_is_exported(self) -> None:
        """A job shorter than the hold-back is not lost."""
        store = opened()
        exported(store, {1: {CALLS: 3}}, {}, 0.0)
        store.retire(1, NO_RANK, {CALLS: 3})

        assert calls_of(exported(store, {}, {}, 1.0)) == {"": 3}


class TestRenaming:
    """A process whose rank becomes known later."""

    def test_old_series_stays_and_new_one_starts_from_there(self) -> None:
        """No call is counted twice."""
        store = opened()
        store.rename(1, NO_RANK, {CALLS: 10})

        assert calls_of(exported(store, {1: {CALLS: 13}}, {1: RANK_0}, 0.0)) == {"": 10, "0": 3}

    def test_histogram_is_split_as_well(self) -> None:
        """Counts and sum since the rename."""
        store = opened()
        store.rename(1, NO_RANK, {DURATION: histogram(8, 10, 4_000_000_000)})

        families = exported(store, {1: {DURATION: histogram(8, 13, 5_000_000_000)}}, {1: RANK_0}, 0.0)

        old, new = value_of(families, DURATION, ""), value_of(families, DURATION, "0")
        assert isinstance(old, Histogram)
        assert isinstance(new, Histogram)
        assert (old.counts[8], old.sum_seconds, new.counts[8], new.sum_seconds) == (10, 4.0, 3, 1.0)

    def test_gauge_moves_with_the_process(self) -> None:
        store = opened()
        store.rename(1, NO_RANK, {LIVE: 100})

        families = exported(store, {1: {LIVE: 100}}, {1: RANK_0}, 0.0)

        assert series_of(families, catalog.allocator.LIVE) == {("0",): 100}

    def test_second_rename_leaves_what_was_counted_in_between(self) -> None:
        """10 calls, then 3, then 2."""
        store = opened()
        store.rename(1, NO_RANK, {CALLS: 10})
        store.rename(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(store, {1: {CALLS: 15}}, {1: RANK_1}, 0.0)) == {"": 10, "0": 3, "1": 2}

    def test_returning_to_the_first_name_adds_to_it(self) -> None:
        """10 calls, 3 under another name, then 2."""
        store = opened()
        store.rename(1, NO_RANK, {CALLS: 10})
        store.rename(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(store, {1: {CALLS: 15}}, {1: NO_RANK}, 0.0)) == {"": 12, "0": 3}

    def test_renamed_process_leaves_its_share_when_it_ends(self) -> None:
        """3 calls since the rename."""
        store = opened()
        store.rename(1, NO_RANK, {CALLS: 10})
        store.retire(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(store, {}, {}, 0.0)) == {"": 10, "0": 3}

    def test_next_process_with_that_number_starts_at_0(self) -> None:
        """What the one before had left under its old name is forgotten."""
        store = opened()
        store.rename(1, NO_RANK, {CALLS: 10})
        store.retire(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(store, {1: {CALLS: 1}}, {1: RANK_1}, 0.0)) == {"": 10, "0": 3, "1": 1}


class TestExpiry:
    """Totals expire a TTL after the last process of their identity."""

    def test_totals_stay_for_the_ttl(self) -> None:
        """A TTL exactly is not over."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 3})
        exported(store, {}, {}, 100.0)

        assert calls_of(exported(store, {}, {}, 100.0 + TTL_SECONDS)) == {"0": 3}

    def test_totals_are_dropped_after_the_ttl(self) -> None:
        store = opened()
        store.retire(1, RANK_0, {CALLS: 3})
        exported(store, {}, {}, 100.0)

        assert exported(store, {}, {}, 101.0 + TTL_SECONDS) == ()

    def test_running_process_keeps_the_totals_of_earlier_ones(self) -> None:
        """The counter of a restarted rank must not fall a TTL later."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 3})
        for now in (0.0, 800.0, 1600.0, 2400.0):
            families = exported(store, {2: {CALLS: 1}}, {2: RANK_0}, now)

        assert calls_of(families) == {"0": 4}

    def test_ttl_starts_at_the_next_snapshot_after_the_end(self) -> None:
        """A job of ten hours without a scrape: its totals are exported for a TTL."""
        store = opened()
        exported(store, {1: {CALLS: 3}}, {1: RANK_0}, 0.0)
        store.retire(1, RANK_0, {CALLS: 30})

        assert calls_of(exported(store, {}, {}, 36_000.0)) == {"0": 30}

    def test_identity_that_returns_after_the_ttl_starts_at_0(self) -> None:
        """Prometheus sees a counter reset."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 3})
        exported(store, {}, {}, 0.0)
        exported(store, {}, {}, 2 * TTL_SECONDS)

        assert calls_of(exported(store, {2: {CALLS: 1}}, {2: RANK_0}, 3 * TTL_SECONDS)) == {"0": 1}


class TestStarts:
    """When counters and histograms of an identity started at 0."""

    def started(self, store: SeriesStore, processes: Mapping[int, Identity], now_seconds: float) -> dict[str, float]:
        """Rank -> seconds since the opening; `own` is the exporter's."""
        totals: Totals = {process: {CALLS: 1} for process in processes}
        found = store.snapshot(totals, processes, at(now_seconds)).started_unix_ns
        return {
            identity.rank if identity else "own": (started - STARTED_UNIX_NS) / 1e9
            for identity, started in found.items()
        }

    def test_own_metrics_start_at_the_opening(self) -> None:
        """They have no identity."""
        assert self.started(SeriesStore(TTL_SECONDS, at(5.0)), {}, 60.0) == {"own": 5.0}

    def test_identity_starts_at_the_opening(self) -> None:
        """It had counted nothing before, and an early start is not wrong."""
        assert self.started(opened(), {1: RANK_0}, 60.0) == {"own": 0.0, "0": 0.0}

    def test_start_does_not_change(self) -> None:
        """A receiver takes a start that changes for a reset."""
        store = opened()
        found = [self.started(store, {1: RANK_0}, now)["0"] for now in (60.0, 120.0, 180.0)]

        assert found == [0.0, 0.0, 0.0]

    def test_start_stays_when_the_process_has_ended(self) -> None:
        """Its totals continue."""
        store = opened()
        self.started(store, {1: RANK_0}, 60.0)
        store.retire(1, RANK_0, {CALLS: 1})

        assert self.started(store, {}, 120.0)["0"] == 0.0

    def test_start_ends_with_the_totals(self) -> None:
        store = opened()
        store.retire(1, RANK_0, {CALLS: 1})
        self.started(store, {}, 60.0)

        assert self.started(store, {}, 61.0 + TTL_SECONDS) == {"own": 0.0}

    def test_identity_that_returns_after_the_ttl_has_a_new_start(self) -> None:
        """The moment at which its totals expired."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 1})
        self.started(store, {}, 60.0)
        self.started(store, {}, 1_000.0)

        assert self.started(store, {2: RANK_0}, 2_000.0) == {"own": 0.0, "0": 1_000.0}

    def test_start_of_an_identity_that_returns_is_not_in_the_future(self) -> None:
        """The time of day was set back after its totals expired."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 1})
        self.started(store, {}, 60.0)
        self.started(store, {}, 1_000.0)
        set_back = [Moment(at(now).monotonic_ns, at(now - 900.0).unix_ns) for now in (1_060.0, 1_075.0)]
        found = [store.snapshot({2: {CALLS: 1}}, {2: RANK_0}, now).started_unix_ns[RANK_0] for now in set_back]

        assert found == [STARTED_UNIX_NS + 160_000_000_000] * 2

    def test_expiry_of_one_identity_does_not_move_the_start_of_a_new_one(self) -> None:
        """Rank 1 made its calls before that moment."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 1})
        self.started(store, {}, 60.0)

        assert self.started(store, {2: RANK_1}, 1_000.0) == {"own": 0.0, "1": 0.0}

    def test_start_in_the_future_is_moved_once(self) -> None:
        """The time of day was set back by an hour: a start that moved with each export would be a reset each time."""
        store = SeriesStore(TTL_SECONDS, at(3_600.0))
        found = [self.started(store, {1: RANK_0}, now)["0"] for now in (3_660.0, 60.0, 75.0, 90.0)]

        assert found == [3_600.0, 60.0, 60.0, 60.0]

    def test_expiry_of_one_identity_leaves_the_start_of_the_others(self) -> None:
        """Rank 1 is running."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 1})
        self.started(store, {2: RANK_1}, 60.0)

        assert self.started(store, {2: RANK_1}, 1_000.0) == {"own": 0.0, "1": 0.0}

    def test_snapshot_keeps_its_starts(self) -> None:
        """A later snapshot does not change one that is being pushed."""
        store = opened()
        store.retire(1, RANK_0, {CALLS: 1})
        earlier = store.snapshot({}, {}, at(60.0))
        store.snapshot({}, {}, at(1_000.0))

        assert earlier.started_unix_ns == {None: STARTED_UNIX_NS, RANK_0: STARTED_UNIX_NS}


STEPS = st.lists(
    st.tuples(st.sampled_from(["work", "work", "admit", "rename", "retire"]), st.integers(0, 2), st.integers(0, 2)),
    max_size=25,
)


class TestTraces:
    """The chain that a counter grows by."""

    LOST = Series(catalog.sched.LOST, ("lock",))

    def trace(self, digit: str = "1", at_seconds: float = 990.0) -> Trace:
        """A quarter of a second."""
        return Trace(digit * 32, digit * 16, 250_000_000, at(at_seconds).monotonic_ns)

    def exemplars(
        self, store: SeriesStore, traces: Mapping[int, Trace], now_seconds: float = 1_000.0
    ) -> list[Exemplar]:
        """Exemplars of lost time of rank 0, whose processes have these traces."""
        totals: Totals = {n: {self.LOST: 5} for n in traces}
        given = {n: {self.LOST: trace} for n, trace in traces.items()}
        families = store.snapshot(totals, dict.fromkeys(totals, RANK_0), at(now_seconds), given).families
        return [
            exemplar
            for family in families
            for key, exemplar in family.exemplars.items()
            if (family.metric, key) == (catalog.sched.LOST, (RANK_0, ("lock",)))
        ]

    def test_exemplar_has_the_trace_and_the_lost_seconds(self) -> None:
        """With the time of day until which they were counted."""
        assert self.exemplars(opened(), {1: self.trace()}) == [
            Exemplar((("trace_id", "1" * 32), ("span_id", "1" * 16)), 0.25, STARTED_UNIX_NS + 990_000_000_000)
        ]

    def test_of_two_processes_the_latest_is_exported(self) -> None:
        """Not the slowest: the latest is the relevant one."""
        earlier, later = self.trace("1", 980.0), self.trace("2", 990.0)
        found = [self.exemplars(opened(), traces) for traces in ({1: earlier, 2: later}, {1: later, 2: earlier})]

        assert [one.labels[0] for (one,) in found] == [("trace_id", "2" * 32)] * 2

    def test_chain_is_exported_for_a_minute(self) -> None:
        """It may have ended between two scrapes."""
        store = opened()

        assert self.exemplars(store, {1: self.trace(at_seconds=940.0)}) != []
        assert self.exemplars(store, {1: self.trace(at_seconds=940.0)}, 1_000.000_001) == []

    def test_chain_outlives_its_process(self) -> None:
        """As the counter does."""
        store = opened()
        store.retire(1, RANK_0, {self.LOST: 5}, {self.LOST: self.trace()})

        assert self.exemplars(store, {}) == self.exemplars(opened(), {1: self.trace()})

    def test_exemplar_is_never_later_than_its_point(self) -> None:
        """A tick may have counted more while the tables were read."""
        (found,) = self.exemplars(opened(), {1: self.trace(at_seconds=1_001.0)})

        assert found.at_unix_ns == at(1_000.0).unix_ns


class TestNeverGoingBack:
    """Any sequence of starts, renames and ends."""

    @settings(max_examples=60, deadline=None)
    @given(STEPS)
    def test_no_series_decreases_and_no_call_is_lost_or_counted_twice(self, steps: list[tuple[str, int, int]]) -> None:
        """After each step the sum over all identities is every call that was made."""
        store, names = opened(), (RANK_0, RANK_1, NO_RANK)
        identities: dict[int, Identity] = {}
        totals: dict[int, dict[Series, Total]] = {}
        made = 0
        before: dict[str, int] = {}
        for now, (act, process, name) in enumerate(steps):
            if act == "admit" and process not in identities:
                identities[process], totals[process] = names[name], {CALLS: 0, DURATION: histogram(8, 0, 0)}
            if process not in identities:
                continue
            if act == "work":
                made += name + 1
                calls = totals[process][CALLS]
                assert isinstance(calls, int)
                totals[process] = {CALLS: calls + name + 1, DURATION: histogram(8, calls + name + 1, calls + name + 1)}
            elif act == "rename" and identities[process] != names[name]:
                store.rename(process, identities[process], totals[process])
                identities[process] = names[name]
            elif act == "retire":
                store.retire(process, identities.pop(process), totals.pop(process))
            families = exported(store, totals, identities, float(now))
            after = calls_of(families)
            durations = series_of(families, catalog.cuda.OPERATION_DURATION).values()
            assert all(after[rank] >= value for rank, value in before.items())
            assert sum(after.values()) == made
            assert sum(sum(value.counts) for value in durations if isinstance(value, Histogram)) == made
            before = after


class TestHostTotals:
    """Containers and the node."""

    def test_container_and_process_of_one_identity_add_up(self) -> None:
        families = opened().snapshot({1: {CALLS: 1}}, {1: RANK_0}, at(0.0), host_totals={RANK_0: {CALLS: 4}}).families

        assert calls_of(families) == {"0": 5}

    def test_container_that_is_gone_ends(self) -> None:
        """When it returns, it starts when it was gone."""
        store = opened()
        store.snapshot({}, {}, at(0.0), host_totals={RANK_0: {CALLS: 4}})
        gone = store.snapshot({}, {}, at(10.0))
        again = store.snapshot({}, {}, at(20.0), host_totals={RANK_0: {CALLS: 1}})

        assert gone.families == ()
        assert again.started_unix_ns[RANK_0] == gone.taken_at.unix_ns
