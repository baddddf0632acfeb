"""ledger: what is exported never goes back, whoever comes, is renamed or goes."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import catalog
from exporter.clock import Moment
from exporter.model import Exemplar, Family, Histogram, Identity
from exporter.series.store import SeriesStore
from exporter.totals import Call, Counts, HistogramTotal, Series, Total, Totals, Trace
from tests.support.records import STARTED_UNIX_NS, at, series_of

TTL_SECONDS = 900.0
RANK_0, RANK_1, NO_RANK = Identity(rank="0"), Identity(rank="1"), Identity()
CALLS = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))
DURATION = Series(catalog.cuda.OPERATION_DURATION, ("runtime", "cudaMalloc"))
LIVE = Series(catalog.allocator.LIVE, ())
COMMUNICATOR = Series(catalog.nccl.COMMUNICATOR_INFO, ("0", "abc", "0", "2"))


def histogram(slot: int, count: int, sum_ns: int, exemplar: Call | None = None) -> HistogramTotal:
    """`count` calls in one slot."""
    return HistogramTotal(Counts.of([count], begin=slot), sum_ns, exemplar)


def opened() -> SeriesStore:
    """A ledger opened at 0 s."""
    return SeriesStore(TTL_SECONDS, at(0.0))


def exported(
    ledger: SeriesStore, totals: Totals, identities: Mapping[int, Identity], now_seconds: float
) -> tuple[Family, ...]:
    """The families of a snapshot."""
    return ledger.snapshot(totals, identities, at(now_seconds)).families


def calls_of(families: tuple[Family, ...]) -> dict[str, int]:
    """Rank -> calls of cudaMalloc."""
    found = series_of(families, catalog.cuda.OPERATIONS)
    return {rank: value for (rank, *_), value in found.items() if isinstance(value, int)}


def value_of(families: tuple[Family, ...], series: Series, rank: str = "0") -> int | float | Histogram | None:
    """One series of one rank; None when it is not exported."""
    return series_of(families, series.metric).get((rank, *series.labels))


class TestAdding:
    """Processes alive."""

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
        """Memory live of both."""
        families = exported(opened(), {1: {LIVE: 100}, 2: {LIVE: 50}}, {1: RANK_0, 2: RANK_0}, 0.0)

        assert value_of(families, LIVE) == 150

    def test_counter_in_seconds_is_counted_in_nanoseconds(self) -> None:
        """0.1 s and 0.2 s are 0.3 s, which they are not in floating point."""
        lost = Series(catalog.sched.LOST, ("block_io",))
        totals: Totals = {1: {lost: 100_000_000}, 2: {lost: 200_000_000}}

        assert value_of(exported(opened(), totals, {1: RANK_0, 2: RANK_0}, 0.0), lost) == 0.3

    def test_info_is_1_however_many_have_it(self) -> None:
        """An info says that something is, not how often."""
        families = exported(opened(), {1: {COMMUNICATOR: 1}, 2: {COMMUNICATOR: 1}}, {1: RANK_0, 2: RANK_0}, 0.0)

        assert value_of(families, COMMUNICATOR) == 1

    def test_identities_are_kept_apart(self) -> None:
        """One series each."""
        families = exported(opened(), {1: {CALLS: 3}, 2: {CALLS: 4}}, {1: RANK_0, 2: RANK_1}, 0.0)

        assert calls_of(families) == {"0": 3, "1": 4}

    def test_process_without_an_identity_is_held_back(self) -> None:
        """Its name is not known yet."""
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

    def test_reading_twice_gives_the_same(self) -> None:
        """A publication changes no total."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 3})

        first = exported(ledger, {2: {CALLS: 4}}, {2: RANK_0}, 0.0)

        assert exported(ledger, {2: {CALLS: 4}}, {2: RANK_0}, 1.0) == first


class TestEnding:
    """A process that has ended."""

    def test_counters_and_histograms_stay(self) -> None:
        """They go on counting for the identity."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 3, DURATION: histogram(8, 3, 9)})

        families = exported(ledger, {}, {}, 0.0)

        value = value_of(families, DURATION)
        assert isinstance(value, Histogram)
        assert (calls_of(families), value.counts[8]) == ({"0": 3}, 3)

    def test_gauges_and_infos_end(self) -> None:
        """Its memory is freed and its communicators are gone."""
        ledger = opened()
        ledger.retire(1, RANK_0, {LIVE: 100, COMMUNICATOR: 1})

        assert exported(ledger, {}, {}, 0.0) == ()

    def test_next_process_of_the_identity_goes_on_from_there(self) -> None:
        """A restarted rank is no counter reset."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 3})

        assert calls_of(exported(ledger, {2: {CALLS: 1}}, {2: RANK_0}, 60.0)) == {"0": 4}

    def test_process_that_was_never_named_is_exported_once_it_ended(self) -> None:
        """A job shorter than the hold-back is not lost."""
        ledger = opened()
        exported(ledger, {1: {CALLS: 3}}, {}, 0.0)
        ledger.retire(1, NO_RANK, {CALLS: 3})

        assert calls_of(exported(ledger, {}, {}, 1.0)) == {"": 3}


class TestRenaming:
    """A process whose rank becomes known later."""

    def test_old_series_stays_and_new_one_starts_from_there(self) -> None:
        """No call is counted twice."""
        ledger = opened()
        ledger.rename(1, NO_RANK, {CALLS: 10})

        assert calls_of(exported(ledger, {1: {CALLS: 13}}, {1: RANK_0}, 0.0)) == {"": 10, "0": 3}

    def test_histogram_is_split_too(self) -> None:
        """Counts and sum since the new name."""
        ledger = opened()
        ledger.rename(1, NO_RANK, {DURATION: histogram(8, 10, 4_000_000_000)})

        families = exported(ledger, {1: {DURATION: histogram(8, 13, 5_000_000_000)}}, {1: RANK_0}, 0.0)

        old, new = value_of(families, DURATION, ""), value_of(families, DURATION, "0")
        assert isinstance(old, Histogram)
        assert isinstance(new, Histogram)
        assert (old.counts[8], old.sum_seconds, new.counts[8], new.sum_seconds) == (10, 4.0, 3, 1.0)

    def test_gauge_moves_with_the_process(self) -> None:
        """Its memory is where it is."""
        ledger = opened()
        ledger.rename(1, NO_RANK, {LIVE: 100})

        families = exported(ledger, {1: {LIVE: 100}}, {1: RANK_0}, 0.0)

        assert series_of(families, catalog.allocator.LIVE) == {("0",): 100}

    def test_second_name_leaves_only_what_came_under_the_first(self) -> None:
        """10 calls, then 3, then 2."""
        ledger = opened()
        ledger.rename(1, NO_RANK, {CALLS: 10})
        ledger.rename(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(ledger, {1: {CALLS: 15}}, {1: RANK_1}, 0.0)) == {"": 10, "0": 3, "1": 2}

    def test_returning_to_the_first_name_adds_to_it(self) -> None:
        """10 calls, 3 elsewhere, then 2."""
        ledger = opened()
        ledger.rename(1, NO_RANK, {CALLS: 10})
        ledger.rename(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(ledger, {1: {CALLS: 15}}, {1: NO_RANK}, 0.0)) == {"": 12, "0": 3}

    def test_renamed_process_leaves_its_share_when_it_ends(self) -> None:
        """3 calls since the new name."""
        ledger = opened()
        ledger.rename(1, NO_RANK, {CALLS: 10})
        ledger.retire(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(ledger, {}, {}, 0.0)) == {"": 10, "0": 3}

    def test_next_process_of_the_number_owes_nothing(self) -> None:
        """What the one before left behind is forgotten with it."""
        ledger = opened()
        ledger.rename(1, NO_RANK, {CALLS: 10})
        ledger.retire(1, RANK_0, {CALLS: 13})

        assert calls_of(exported(ledger, {1: {CALLS: 1}}, {1: RANK_1}, 0.0)) == {"": 10, "0": 3, "1": 1}


class TestExpiry:
    """Totals do not outlive their identity for ever."""

    def test_totals_stay_for_the_ttl(self) -> None:
        """Exactly as long still counts."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 3})
        exported(ledger, {}, {}, 100.0)

        assert calls_of(exported(ledger, {}, {}, 100.0 + TTL_SECONDS)) == {"0": 3}

    def test_totals_are_dropped_after_the_ttl(self) -> None:
        """No process has had the identity for that long."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 3})
        exported(ledger, {}, {}, 100.0)

        assert exported(ledger, {}, {}, 101.0 + TTL_SECONDS) == ()

    def test_process_alive_keeps_the_totals_of_those_before_it(self) -> None:
        """A rank that restarted once must not fall back a TTL later."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 3})
        for now in (0.0, 800.0, 1600.0, 2400.0):
            families = exported(ledger, {2: {CALLS: 1}}, {2: RANK_0}, now)

        assert calls_of(families) == {"0": 4}

    def test_ttl_begins_with_the_end_also_when_nobody_scraped_before_it(self) -> None:
        """A job of ten hours whose Prometheus was away: its totals are there for a TTL once asked for."""
        ledger = opened()
        exported(ledger, {1: {CALLS: 3}}, {1: RANK_0}, 0.0)
        ledger.retire(1, RANK_0, {CALLS: 30})

        assert calls_of(exported(ledger, {}, {}, 36_000.0)) == {"0": 30}

    def test_identity_that_returns_after_the_ttl_begins_at_zero(self) -> None:
        """Prometheus sees a counter reset."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 3})
        exported(ledger, {}, {}, 0.0)
        exported(ledger, {}, {}, 2 * TTL_SECONDS)

        assert calls_of(exported(ledger, {2: {CALLS: 1}}, {2: RANK_0}, 3 * TTL_SECONDS)) == {"0": 1}


class TestStarts:
    """Since when counters and histograms count, by identity."""

    def started(self, ledger: SeriesStore, processes: Mapping[int, Identity], now_seconds: float) -> dict[str, float]:
        """Rank -> seconds from the opening on, of an export; `own` for the exporter."""
        totals: Totals = {process: {CALLS: 1} for process in processes}
        found = ledger.snapshot(totals, processes, at(now_seconds)).started_unix_ns
        return {
            identity.rank if identity else "own": (started - STARTED_UNIX_NS) / 1e9
            for identity, started in found.items()
        }

    def test_exporter_s_own_metrics_count_since_the_opening(self) -> None:
        """They have no identity."""
        assert self.started(SeriesStore(TTL_SECONDS, at(5.0)), {}, 60.0) == {"own": 5.0}

    def test_identity_counts_since_the_opening(self) -> None:
        """It had counted nothing before its first export, and nothing has been forgotten; to start early is not wrong."""
        assert self.started(opened(), {1: RANK_0}, 60.0) == {"own": 0.0, "0": 0.0}

    def test_start_is_fixed_from_the_first_export_on(self) -> None:
        """A start that moves is a reset to a receiver."""
        ledger = opened()
        found = [self.started(ledger, {1: RANK_0}, now)["0"] for now in (60.0, 120.0, 180.0)]

        assert found == [0.0, 0.0, 0.0]

    def test_start_stays_when_the_process_has_ended(self) -> None:
        """Its totals count on."""
        ledger = opened()
        self.started(ledger, {1: RANK_0}, 60.0)
        ledger.retire(1, RANK_0, {CALLS: 1})

        assert self.started(ledger, {}, 120.0)["0"] == 0.0

    def test_start_ends_with_the_totals(self) -> None:
        """Nothing is exported of the identity."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 1})
        self.started(ledger, {}, 60.0)

        assert self.started(ledger, {}, 61.0 + TTL_SECONDS) == {"own": 0.0}

    def test_identity_that_returns_after_the_ttl_has_a_new_start(self) -> None:
        """The moment at which its totals were forgotten: what it exports now was counted after that."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 1})
        self.started(ledger, {}, 60.0)
        self.started(ledger, {}, 1_000.0)

        assert self.started(ledger, {2: RANK_0}, 2_000.0) == {"own": 0.0, "0": 1_000.0}

    def test_start_of_an_identity_that_returns_does_not_lie_ahead(self) -> None:
        """Its totals were forgotten at a time of day that is yet to come again."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 1})
        self.started(ledger, {}, 60.0)
        self.started(ledger, {}, 1_000.0)
        set_back = [Moment(at(now).monotonic_ns, at(now - 900.0).unix_ns) for now in (1_060.0, 1_075.0)]
        found = [ledger.snapshot({2: {CALLS: 1}}, {2: RANK_0}, now).started_unix_ns[RANK_0] for now in set_back]

        assert found == [STARTED_UNIX_NS + 160_000_000_000] * 2

    def test_identity_first_exported_as_another_expires_has_counted_since_the_opening(self) -> None:
        """Rank 1 made its calls before that moment."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 1})
        self.started(ledger, {}, 60.0)

        assert self.started(ledger, {2: RANK_1}, 1_000.0) == {"own": 0.0, "1": 0.0}

    def test_start_that_lies_ahead_is_moved_once(self) -> None:
        """The time of day was set back by an hour: a start that moved on with each export would be a reset each time."""
        ledger = SeriesStore(TTL_SECONDS, at(3_600.0))
        found = [self.started(ledger, {1: RANK_0}, now)["0"] for now in (3_660.0, 60.0, 75.0, 90.0)]

        assert found == [3_600.0, 60.0, 60.0, 60.0]

    def test_expiry_of_one_identity_leaves_the_start_of_the_others(self) -> None:
        """Rank 1 runs on."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 1})
        self.started(ledger, {2: RANK_1}, 60.0)

        assert self.started(ledger, {2: RANK_1}, 1_000.0) == {"own": 0.0, "1": 0.0}

    def test_snapshot_keeps_its_starts(self) -> None:
        """A later one does not change it under a push that is being written."""
        ledger = opened()
        ledger.retire(1, RANK_0, {CALLS: 1})
        earlier = ledger.snapshot({}, {}, at(60.0))
        ledger.snapshot({}, {}, at(1_000.0))

        assert earlier.started_unix_ns == {None: STARTED_UNIX_NS, RANK_0: STARTED_UNIX_NS}


class TestExemplars:
    """A call of late, out of those that a histogram has counted."""

    def exported(self, *calls: Call | None, now_seconds: float = 1_000.0) -> Exemplar | None:
        """The exemplar of rank 0, whose processes have these."""
        totals: Totals = {n: {DURATION: histogram(8, 1, 9, call)} for n, call in enumerate(calls)}
        families = exported(opened(), totals, dict.fromkeys(totals, RANK_0), now_seconds)
        value = value_of(families, DURATION)
        assert isinstance(value, Histogram)
        return value.exemplar

    def test_exemplar_has_who_how_long_and_when(self) -> None:
        """Seconds, and the time of day of its end."""
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=990_000_000_001, tgid=4026)

        assert self.exported(call) == Exemplar(
            (("pid", "4026"), ("tid", "4031")), 0.25, STARTED_UNIX_NS + 990_000_000_001
        )

    def test_of_two_processes_the_latest_is_exported(self) -> None:
        """Not the slowest: it is the one that matters now."""
        earlier = Call(tid=4031, duration_ns=250_000_000, ended_ns=980_000_000_000, tgid=4026)
        later = Call(tid=5031, duration_ns=125_000_000, ended_ns=990_000_000_000, tgid=5026)
        expected = Exemplar((("pid", "5026"), ("tid", "5031")), 0.125, STARTED_UNIX_NS + 990_000_000_000)

        assert self.exported(earlier, later) == self.exported(later, earlier, None) == expected

    def test_without_one_there_is_none(self) -> None:
        """The row was being written, or the driver's calls were only counted."""
        assert self.exported(None, None) is None

    def test_exemplar_of_a_minute_ago_is_the_last_that_is_shown(self) -> None:
        """An older one says nothing of what is slow now."""
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=900_000_000_000, tgid=4026)

        assert self.exported(call, now_seconds=960.0) is not None
        assert self.exported(call, now_seconds=960.000_001) is None

    def test_call_that_ended_while_the_tables_were_read_is_shown_next_time(self) -> None:
        """A point has no exemplar from after its own time."""
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=1_000_000_000_001, tgid=4026)

        assert self.exported(call, now_seconds=1_000.0) is None

    def test_thread_that_the_exporter_does_not_see_has_no_labels(self) -> None:
        """It is in a pid namespace of its own; 0 is nobody."""
        call = Call(tid=0, duration_ns=250_000_000, ended_ns=990_000_000_000, tgid=0)
        found = self.exported(call)

        assert found is not None
        assert (found.labels, found.seconds) == ((), 0.25)

    def test_exemplar_outlives_its_process(self) -> None:
        """The slowest call may be the one that it died of."""
        ledger = opened()
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=990_000_000_000, tgid=4026)
        ledger.retire(1, RANK_0, {DURATION: histogram(8, 1, 9, call)})
        value = value_of(exported(ledger, {}, {}, 1_000.0), DURATION)

        assert isinstance(value, Histogram)
        assert value.exemplar is not None

    def test_renamed_process_leaves_its_exemplar_behind(self) -> None:
        """The call was made under the old name."""
        ledger = opened()
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=990_000_000_000, tgid=4026)
        ledger.rename(1, NO_RANK, {DURATION: histogram(8, 1, 9, call)})
        families = exported(ledger, {1: {DURATION: histogram(8, 2, 18, call)}}, {1: RANK_0}, 1_000.0)

        old, new = value_of(families, DURATION, ""), value_of(families, DURATION, "0")
        assert isinstance(old, Histogram)
        assert isinstance(new, Histogram)
        assert (old.exemplar is None, new.exemplar is None) == (False, True)


STEPS = st.lists(
    st.tuples(st.sampled_from(["work", "work", "admit", "rename", "retire"]), st.integers(0, 2), st.integers(0, 2)),
    max_size=25,
)


class TestTraces:
    """The episode that a counter grows by."""

    LOST = Series(catalog.sched.LOST, ("lock",))

    def trace(self, digit: str = "1", at_seconds: float = 990.0) -> Trace:
        """Of a quarter of a second."""
        return Trace(digit * 32, digit * 16, 250_000_000, at(at_seconds).monotonic_ns)

    def exemplars(
        self, ledger: SeriesStore, traces: Mapping[int, Trace], now_seconds: float = 1_000.0
    ) -> list[Exemplar]:
        """Of the lost seconds of rank 0, whose processes have these traces."""
        totals: Totals = {n: {self.LOST: 5} for n in traces}
        given = {n: {self.LOST: trace} for n, trace in traces.items()}
        families = ledger.snapshot(totals, dict.fromkeys(totals, RANK_0), at(now_seconds), given).families
        return [
            exemplar
            for family in families
            for key, exemplar in family.exemplars.items()
            if (family.metric, key) == (catalog.sched.LOST, (RANK_0, ("lock",)))
        ]

    def test_exemplar_names_the_trace_and_what_was_lost(self) -> None:
        """In seconds, with the time of day until which they were counted."""
        assert self.exemplars(opened(), {1: self.trace()}) == [
            Exemplar((("trace_id", "1" * 32), ("span_id", "1" * 16)), 0.25, STARTED_UNIX_NS + 990_000_000_000)
        ]

    def test_of_two_processes_the_latest_is_exported(self) -> None:
        """Of one identity, in either order."""
        earlier, later = self.trace("1", 980.0), self.trace("2", 990.0)
        found = [self.exemplars(opened(), traces) for traces in ({1: earlier, 2: later}, {1: later, 2: earlier})]

        assert [one.labels[0] for (one,) in found] == [("trace_id", "2" * 32)] * 2

    def test_episode_of_a_minute_ago_is_the_last_that_is_shown(self) -> None:
        """It may have been over between two scrapes."""
        ledger = opened()

        assert self.exemplars(ledger, {1: self.trace(at_seconds=940.0)}) != []
        assert self.exemplars(ledger, {1: self.trace(at_seconds=940.0)}, 1_000.000_001) == []

    def test_episode_outlives_its_process(self) -> None:
        """As the counter does."""
        ledger = opened()
        ledger.retire(1, RANK_0, {self.LOST: 5}, {self.LOST: self.trace()})

        assert self.exemplars(ledger, {}) == self.exemplars(opened(), {1: self.trace()})

    def test_no_exemplar_is_of_later_than_its_point(self) -> None:
        """A tick may have booked more while the tables were read."""
        (found,) = self.exemplars(opened(), {1: self.trace(at_seconds=1_001.0)})

        assert found.at_unix_ns == at(1_000.0).unix_ns


class TestNeverGoingBack:
    """Any history of comings, renamings and goings."""

    @settings(max_examples=60, deadline=None)
    @given(STEPS)
    def test_no_series_decreases_and_no_call_is_lost_or_counted_twice(self, steps: list[tuple[str, int, int]]) -> None:
        """After each step the sum over all identities is every call that was made."""
        ledger, names = opened(), (RANK_0, RANK_1, NO_RANK)
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
                ledger.rename(process, identities[process], totals[process])
                identities[process] = names[name]
            elif act == "retire":
                ledger.retire(process, identities.pop(process), totals.pop(process))
            families = exported(ledger, totals, identities, float(now))
            after = calls_of(families)
            durations = series_of(families, catalog.cuda.OPERATION_DURATION).values()
            assert all(after[rank] >= value for rank, value in before.items())
            assert sum(after.values()) == made
            assert sum(sum(value.counts) for value in durations if isinstance(value, Histogram)) == made
            before = after


class TestPlaces:
    """Containers and the machine, whose totals are somebody else's."""

    def test_place_and_process_of_one_identity_add_up(self) -> None:
        """As two processes do."""
        families = opened().snapshot({1: {CALLS: 1}}, {1: RANK_0}, at(0.0), host_totals={RANK_0: {CALLS: 4}}).families

        assert calls_of(families) == {"0": 5}

    def test_place_that_is_told_no_more_ends(self) -> None:
        """When it comes again, it counts since it was gone."""
        ledger = opened()
        ledger.snapshot({}, {}, at(0.0), host_totals={RANK_0: {CALLS: 4}})
        gone = ledger.snapshot({}, {}, at(10.0))
        again = ledger.snapshot({}, {}, at(20.0), host_totals={RANK_0: {CALLS: 1}})

        assert gone.families == ()
        assert again.started_unix_ns[RANK_0] == gone.taken_at.unix_ns
