"""exposed: what of the waiting for a CPU delayed the return of a synchronising call."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.accounting.exposed import Exposed, ExposedLoss
from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables

SYNC = "cudaStreamSynchronize"
MS = 1_000_000


class Calls:
    """Calls of one process, and what was lost by them."""

    def __init__(self, operation: str = SYNC) -> None:
        self._operation = operation
        self.kernel = FakeTables()
        self.loss = ExposedLoss()
        self._tables = Tables(self.kernel.maps)

    def lost(self, *, open_stop_ns: int = 0, **more: Any) -> Exposed:
        """After these calls. more: of FakeTables.exposure(). open_stop_ns: in an open call of a thread that is stopped now."""
        self.kernel.exposure(1, self._operation, **more)
        return self.loss.update(self._tables.read_accounts([1]).exposures.items(), open_stop_ns)


@pytest.fixture
def calls() -> Calls:
    """No calls yet."""
    return Calls()


class TestExact:
    """The thread slept until the GPU was done."""

    def test_all_of_it_is_lost(self, calls: Calls) -> None:
        """At once, without any baseline."""
        assert calls.lost(exact_ns=70) == Exposed(70, 0)

    def test_it_is_lost_once(self, calls: Calls) -> None:
        """The sums are cumulative."""
        calls.lost(exact_ns=70)

        assert calls.lost() == Exposed(0, 0)
        assert calls.lost(exact_ns=5) == Exposed(5, 0)


class TestBound:
    """The thread was spinning."""

    def test_excess_over_clean_calls_is_lost(self, calls: Calls) -> None:
        """Two calls of 150 where clean ones take 100: 100 of at most 120."""
        assert calls.lost(clean=(10, 1_000), bounded=(2, 300, 120)) == Exposed(100, 0)

    def test_no_more_than_the_bound_is_lost(self, calls: Calls) -> None:
        """The rest had another reason."""
        assert calls.lost(clean=(10, 1_000), bounded=(2, 300, 40)) == Exposed(40, 0)

    def test_faster_call_has_lost_nothing(self, calls: Calls) -> None:
        """And nothing comes back."""
        assert calls.lost(clean=(10, 1_000), bounded=(2, 150, 40)) == Exposed(0, 0)

    def test_it_is_decided_when_enough_clean_calls_are_known(self, calls: Calls) -> None:
        """Four, then a fifth."""
        first = calls.lost(clean=(4, 400), bounded=(1, 130, 50))

        assert (first, calls.lost(clean=(1, 100))) == (Exposed(0, 0), Exposed(30, 0))

    def test_it_is_decided_once(self, calls: Calls) -> None:
        """What was looked at is settled."""
        calls.lost(clean=(10, 1_000), bounded=(2, 300, 120))

        assert calls.lost(clean=(10, 500)) == Exposed(0, 0)

    def test_exact_and_bound_add_up(self, calls: Calls) -> None:
        """They are of different calls."""
        assert calls.lost(exact_ns=7, clean=(10, 1_000), bounded=(1, 130, 50)) == Exposed(37, 0)


class TestQuota:
    """The kernel knows which of the waits the quota caused."""

    def test_exact_loss_is_split_as_it_was(self, calls: Calls) -> None:
        """A quarter was throttled."""
        assert calls.lost(exact_ns=80, throttled_ns=(20, 0)) == Exposed(60, 20)

    def test_bounded_loss_is_split_as_its_bound(self, calls: Calls) -> None:
        """40 of at most 80, of which a quarter was throttled."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 140, 80), throttled_ns=(0, 20)) == Exposed(30, 10)

    def test_split_of_a_bound_decided_later_is_not_forgotten(self, calls: Calls) -> None:
        """The baseline comes with the fifth clean call."""
        calls.lost(clean=(4, 400), bounded=(1, 130, 50), throttled_ns=(0, 50))

        assert calls.lost(clean=(1, 100)) == Exposed(0, 30)


class TestStops:
    """The thread was stopped while it waited for the GPU."""

    def test_stop_is_lost_but_for_the_work_that_the_gpu_had(self, calls: Calls) -> None:
        """Stopped for 500 in a call of 560 where clean ones take 100: the GPU worked for 40 of the stop."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 560, 0), stopped_ns=500) == Exposed(0, 0, 460)

    def test_stop_behind_the_gpu_s_work_is_hidden(self, calls: Calls) -> None:
        """Stopped for 50, and the call no longer for it."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 100, 0), stopped_ns=50) == Exposed()

    def test_what_was_hidden_was_waiting_for_a_cpu_rather_than_stopped(self, calls: Calls) -> None:
        """Stopped for 400, and runnable for 200 in other calls: 450 more than clean ones."""
        assert calls.lost(clean=(10, 1_000), bounded=(3, 750, 200), stopped_ns=400) == Exposed(50, 0, 400)

    def test_wait_for_a_cpu_after_it_is_a_loss_of_its_own(self, calls: Calls) -> None:
        """Stopped for 400 and runnable for 100: 500 more than a clean call."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 600, 100), stopped_ns=400) == Exposed(100, 0, 400)


class TestOpenStops:
    """A thread is stopped in a call that has not ended: the kernel has booked nothing of it."""

    def test_it_is_lost_as_it_goes_on_after_a_usual_wait(self, calls: Calls) -> None:
        """Waits take 100: of a stop of 500 the GPU may have worked for 100, and of one of 800 too."""
        calls.lost(clean=(10, 1_000))

        assert calls.lost(open_stop_ns=500) == Exposed(stopped_ns=400)
        assert calls.lost(open_stop_ns=800) == Exposed(stopped_ns=300)

    def test_it_is_lost_once_when_it_ends(self, calls: Calls) -> None:
        """700 were advanced of 760."""
        calls.lost(clean=(10, 1_000))
        calls.lost(open_stop_ns=800)

        assert calls.lost(bounded=(1, 860, 0), stopped_ns=800) == Exposed(stopped_ns=60)

    def test_nothing_is_advanced_while_the_usual_wait_is_unknown(self, calls: Calls) -> None:
        """The GPU may work for hours."""
        assert calls.lost(open_stop_ns=800) == Exposed()


class TestLateStalls:
    """The thread stalled before it came to wait: the GPU may have had something to do."""

    def test_stall_behind_the_gpu_s_work_is_hidden(self, calls: Calls) -> None:
        """The wait was shorter than a clean one of 100 by as much as the stall was long."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 40, 0), late_ns=60) == Exposed()

    def test_what_the_wait_was_not_shorter_by_is_lost(self, calls: Calls) -> None:
        """A stall of 60, a wait of 90 instead of 100: 10 were hidden."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 90, 0), late_ns=60) == Exposed(late_ns=50)

    def test_longer_wait_hides_nothing(self, calls: Calls) -> None:
        """All of the stall is lost, and no more."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 500, 0), late_ns=60) == Exposed(late_ns=60)

    def test_return_delayed_for_longer_than_the_stall_is_lost_too(self, calls: Calls) -> None:
        """A stall of 30, a wait of 150 instead of 100: the GPU was done after 70 of it, and 80 of at most 120 were lost."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 150, 90), late_ns=30) == Exposed(runnable_ns=60, late_ns=20)

    def test_wait_for_a_cpu_while_the_gpu_works_is_hidden(self, calls: Calls) -> None:
        """A stall of 20, then a wait of 80 for the GPU with a wait for a CPU of 50 in it."""
        assert calls.lost(clean=(10, 1_000), bounded=(1, 80, 50), late_ns=20) == Exposed()

    def test_without_enough_clean_waits_it_is_put_off(self, calls: Calls) -> None:
        """The fifth one says that 10 of 60 were hidden."""
        first = calls.lost(clean=(4, 400), bounded=(1, 90, 0), late_ns=60)
        undecided_ns = calls.loss.undecided_late_ns

        assert (first, undecided_ns, calls.lost(clean=(1, 100))) == (Exposed(), 60, Exposed(late_ns=50))
        assert calls.loss.undecided_late_ns == 0


class TestAlwaysLate:
    """A job that stalls in every cycle: what its waits take is only known to be no more than a ceiling."""

    def test_stalls_as_usual_are_not_lost(self, calls: Calls) -> None:
        """Ten cycles with stalls of 8 and waits of 3: 11 may be what such waits take."""
        assert calls.lost(bounded=(10, 30, 0), late_ns=80) == Exposed()

    def test_longer_stalls_are_lost_but_for_the_ceiling(self, calls: Calls) -> None:
        """Then ten of 1,000: no more than 11 - 3 of each were hidden."""
        calls.lost(bounded=(10, 30, 0), late_ns=80)

        assert calls.lost(bounded=(10, 30, 0), late_ns=10_000) == Exposed(late_ns=10_000 - 80)

    def test_a_quieter_time_lowers_the_ceiling(self, calls: Calls) -> None:
        """Stalls of 1,000 from the start on, then ten of 8, then of 1,000 again."""
        calls.lost(bounded=(10, 30, 0), late_ns=10_000)
        quiet = calls.lost(bounded=(10, 30, 0), late_ns=80)

        assert quiet == Exposed()
        assert calls.lost(bounded=(10, 30, 0), late_ns=10_000) == Exposed(late_ns=10_000 - 80)

    def test_longer_waits_raise_it(self, calls: Calls) -> None:
        """The job gives the GPU more to do: waits of 500 after stalls of 100 are nothing to worry about, nor the next."""
        calls.lost(bounded=(10, 30, 0), late_ns=80)
        calls.lost(bounded=(10, 5_000, 0), late_ns=1_000)

        assert calls.lost(bounded=(10, 5_000, 0), late_ns=1_000) == Exposed()

    def test_variation_is_no_loss(self, calls: Calls) -> None:
        """Waits and stalls of 110 together, then of 115: within a sixteenth."""
        calls.lost(bounded=(10, 1_000, 0), late_ns=100)

        assert calls.lost(bounded=(10, 1_050, 0), late_ns=100) == Exposed()

    def test_fewer_than_five_cycles_are_put_off(self, calls: Calls) -> None:
        """Four say nothing yet; with the fifth they are the ceiling."""
        assert calls.lost(bounded=(4, 4, 0), late_ns=400) == Exposed()
        assert calls.lost(bounded=(1, 1, 0), late_ns=100) == Exposed()
        assert calls.loss.undecided_late_ns == 0


class TestKinds:
    """Each operation, after about as much work, has a baseline of its own."""

    def test_operations_are_added_up(self, calls: Calls) -> None:
        """Exposed waits of one process."""
        calls.kernel.exposure(1, "cudaDeviceSynchronize", exact_ns=5)

        assert calls.lost(exact_ns=70) == Exposed(75, 0)

    def test_short_waits_after_little_work_are_no_baseline_of_long_ones(self, calls: Calls) -> None:
        """Waits of 100 after a backward pass, and of 10 after an optimizer step: one of 90 after a stall of 10 lost nothing."""
        calls.kernel.exposure(1, SYNC, work=2, clean=(10, 100))

        assert calls.lost(work=8, clean=(10, 1_000), bounded=(1, 90, 0), late_ns=10) == Exposed()

    def test_the_gpu_may_have_queued_the_most_work(self, calls: Calls) -> None:
        """None is known, then waits of 10 and of 100."""
        unknown = calls.loss.longest_wait_ns
        calls.lost(work=2, clean=(10, 100))
        calls.lost(work=8, clean=(10, 1_000))

        assert (unknown, calls.loss.longest_wait_ns) == (None, 100)


class TestEvents:
    """A job that is ahead of its GPU waits for events of earlier work."""

    @pytest.fixture
    def waits(self) -> Calls:
        """Waits for events."""
        return Calls("cudaEventSynchronize")

    def test_stall_is_lost_beyond_a_usual_wait(self, waits: Calls) -> None:
        """5 ms usually; a stall of 8 ms leaves nothing to wait for."""
        assert waits.lost(clean=(10, 50 * MS), bounded=(1, 0, 0), late_ns=8 * MS).late_ns == 3 * MS

    def test_event_that_is_reached_at_once_shows_nothing(self, waits: Calls) -> None:
        """0.1 ms, as for a copy: the kernels behind it may hide the stall."""
        assert waits.lost(clean=(10, MS), bounded=(1, 0, 0), late_ns=8 * MS) == Exposed()
