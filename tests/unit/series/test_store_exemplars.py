"""store: one of the recent calls in a histogram."""

from __future__ import annotations

from exporter.model import Exemplar, Histogram
from exporter.totals import Call, Totals
from tests.support.records import STARTED_UNIX_NS
from tests.unit.series.stores import (
    DURATION,
    NO_RANK,
    RANK_0,
    exported,
    histogram,
    opened,
    value_of,
)


class TestExemplars:
    """One of the recent calls in a histogram."""

    def exported(self, *calls: Call | None, now_seconds: float = 1_000.0) -> Exemplar | None:
        """The exemplar of rank 0, whose processes have these histograms."""
        totals: Totals = {n: {DURATION: histogram(8, 1, 9, call)} for n, call in enumerate(calls)}
        families = exported(opened(), totals, dict.fromkeys(totals, RANK_0), now_seconds)
        value = value_of(families, DURATION)
        assert isinstance(value, Histogram)
        return value.exemplar

    def test_exemplar_has_tgid_tid_seconds_and_time(self) -> None:
        """The time of day of its end."""
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=990_000_000_001, tgid=4026)

        assert self.exported(call) == Exemplar(
            (("pid", "4026"), ("tid", "4031")), 0.25, STARTED_UNIX_NS + 990_000_000_001
        )

    def test_of_two_processes_the_latest_is_exported(self) -> None:
        """Not the slowest: the latest is the relevant one."""
        earlier = Call(tid=4031, duration_ns=250_000_000, ended_ns=980_000_000_000, tgid=4026)
        later = Call(tid=5031, duration_ns=125_000_000, ended_ns=990_000_000_000, tgid=5026)
        expected = Exemplar((("pid", "5026"), ("tid", "5031")), 0.125, STARTED_UNIX_NS + 990_000_000_000)

        assert self.exported(earlier, later) == self.exported(later, earlier, None) == expected

    def test_histogram_may_have_no_exemplar(self) -> None:
        """The row was being written, or calls were only counted."""
        assert self.exported(None, None) is None

    def test_exemplar_is_exported_for_a_minute(self) -> None:
        """An older one does not explain what is slow now."""
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=900_000_000_000, tgid=4026)

        assert self.exported(call, now_seconds=960.0) is not None
        assert self.exported(call, now_seconds=960.000_001) is None

    def test_call_that_ended_after_the_snapshot_began_is_not_exported_yet(self) -> None:
        """No point has an exemplar later than itself."""
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=1_000_000_000_001, tgid=4026)

        assert self.exported(call, now_seconds=1_000.0) is None

    def test_thread_that_is_not_visible_has_no_labels(self) -> None:
        """It is in another pid namespace, and its tid is 0."""
        call = Call(tid=0, duration_ns=250_000_000, ended_ns=990_000_000_000, tgid=0)
        found = self.exported(call)

        assert found is not None
        assert (found.labels, found.seconds) == ((), 0.25)

    def test_exemplar_outlives_its_process(self) -> None:
        store = opened()
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=990_000_000_000, tgid=4026)
        store.retire(1, RANK_0, {DURATION: histogram(8, 1, 9, call)})
        value = value_of(exported(store, {}, {}, 1_000.0), DURATION)

        assert isinstance(value, Histogram)
        assert value.exemplar is not None

    def test_renamed_process_leaves_its_exemplar_behind(self) -> None:
        """The call was made under the old name."""
        store = opened()
        call = Call(tid=4031, duration_ns=250_000_000, ended_ns=990_000_000_000, tgid=4026)
        store.rename(1, NO_RANK, {DURATION: histogram(8, 1, 9, call)})
        families = exported(store, {1: {DURATION: histogram(8, 2, 18, call)}}, {1: RANK_0}, 1_000.0)

        old, new = value_of(families, DURATION, ""), value_of(families, DURATION, "0")
        assert isinstance(old, Histogram)
        assert isinstance(new, Histogram)
        assert (old.exemplar is None, new.exemplar is None) == (False, True)
