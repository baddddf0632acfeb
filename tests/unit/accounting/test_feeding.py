"""feeding: stalls of the feeding timeline, dry ones and late ones."""

from __future__ import annotations

import pytest

from exporter.accounting.feeding import FeedingLoss, OpenStall
from exporter.kernel.abi import ThreadState
from exporter.kernel.thread_rows import FeedingRow
from tests.support.tables import By, states_of

IO, LOCK, PIPE, RUNNABLE = ThreadState.IO, ThreadState.LOCK, ThreadState.PIPE, ThreadState.RUNNABLE
LONG = 1_000_000  # in that state for longer than the stall


def row(
    dry_ns: By | None = None,
    late_ns: By | None = None,
    clean: tuple[int, int] = (0, 0),
    stalled: tuple[int, int, int] = (0, 0, 0),
    *,
    since_ns: int = 0,
    is_dry: bool = False,
) -> FeedingRow:
    """A cumulative row. clean: waits, their time. stalled: waits, their time, the late stalls before them."""
    return FeedingRow(
        1, 0, since_ns, is_dry, states_of(dry_ns or {}), states_of(late_ns or {}), 0, *clean, *stalled, *(0,) * 6
    )


@pytest.fixture
def loss() -> FeedingLoss:
    """A new process."""
    return FeedingLoss()


class TestDry:
    """The GPU had nothing to do."""

    def test_all_of_it_is_lost_by_state(self, loss: FeedingLoss) -> None:
        """At once."""
        assert loss.update(row(dry_ns={IO: 30, RUNNABLE: 5})) == {RUNNABLE: 5, IO: 30}

    def test_it_is_lost_once(self, loss: FeedingLoss) -> None:
        """The sums are cumulative."""
        loss.update(row(dry_ns={IO: 30}))

        assert loss.update(row(dry_ns={IO: 34})) == {IO: 4}


class TestLate:
    """The GPU may have had something to do."""

    def test_stall_behind_the_gpu_s_work_is_hidden(self, loss: FeedingLoss) -> None:
        """The wait was shorter than a clean one of 100 by as much as the stall was long."""
        assert loss.update(row(late_ns={IO: 60}, clean=(10, 1_000), stalled=(1, 40, 60))) == {}

    def test_what_the_wait_was_not_shorter_by_is_lost(self, loss: FeedingLoss) -> None:
        """A stall of 60, a wait of 90 instead of 100: 10 were hidden."""
        assert loss.update(row(late_ns={IO: 60}, clean=(10, 1_000), stalled=(1, 90, 60))) == {IO: 50}

    def test_longer_wait_hides_nothing(self, loss: FeedingLoss) -> None:
        """All of the stall is lost, and no more."""
        assert loss.update(row(late_ns={IO: 60}, clean=(10, 1_000), stalled=(1, 500, 60))) == {IO: 60}

    def test_loss_is_spread_over_the_states_of_the_stalls(self, loss: FeedingLoss) -> None:
        """A wait of 70 instead of 100 hid 30 of 60: half of each is left."""
        found = loss.update(row(late_ns={IO: 40, LOCK: 20}, clean=(10, 1_000), stalled=(1, 70, 60)))

        assert found == {IO: 20, LOCK: 10}

    def test_stall_whose_wait_comes_later_is_not_forgotten(self, loss: FeedingLoss) -> None:
        """States of one tick, the wait of the next."""
        loss.update(row(late_ns={LOCK: 60}, clean=(10, 1_000)))

        assert loss.update(row(late_ns={LOCK: 60}, clean=(10, 1_000), stalled=(1, 100, 60))) == {LOCK: 60}

    def test_states_of_losses_booked_before_do_not_count_again(self, loss: FeedingLoss) -> None:
        """First a lock, then a disk."""
        loss.update(row(late_ns={LOCK: 60}, clean=(10, 1_000), stalled=(1, 100, 60)))
        later = row(late_ns={LOCK: 60, IO: 60}, clean=(10, 1_000), stalled=(2, 200, 120))

        assert loss.update(later) == {IO: 60}

    def test_without_enough_clean_waits_it_is_put_off(self, loss: FeedingLoss) -> None:
        """The fifth one says that 10 of 60 were hidden: a wait of 90 instead of 100."""
        first = loss.update(row(late_ns={IO: 60}, clean=(4, 400), stalled=(1, 90, 60)))
        second = loss.update(row(late_ns={IO: 60}, clean=(5, 500), stalled=(1, 90, 60)))

        assert (first, second) == ({}, {IO: 50})

    def test_hidden_stall_says_nothing_of_later_ones(self, loss: FeedingLoss) -> None:
        """A lock that cost nothing, then a disk."""
        loss.update(row(late_ns={LOCK: 60}, clean=(10, 1_000), stalled=(1, 40, 60)))

        assert loss.update(row(late_ns={LOCK: 60, IO: 60}, clean=(10, 1_000), stalled=(2, 140, 120))) == {IO: 60}

    def test_stall_of_the_open_cycle_keeps_its_state(self, loss: FeedingLoss) -> None:
        """Two stalls of 60; the wait behind the second one is of the next tick."""
        loss.update(row(late_ns={IO: 120}, clean=(10, 1_000), stalled=(1, 100, 60))._replace(cycle_late_ns=60))

        assert loss.update(row(late_ns={IO: 120}, clean=(10, 1_000), stalled=(2, 200, 120))) == {IO: 60}

    def test_dry_and_late_add_up(self, loss: FeedingLoss) -> None:
        """They are of different times."""
        assert loss.update(row({PIPE: 7}, {PIPE: 60}, clean=(10, 1_000), stalled=(1, 100, 60))) == {PIPE: 67}


class TestAlwaysLate:
    """A job that stalls in every cycle: what its waits take is only known to be no more than a ceiling."""

    def test_stalls_as_usual_are_not_lost(self, loss: FeedingLoss) -> None:
        """Ten cycles with stalls of 8 and waits of 3: 11 may be what such waits take."""
        assert loss.update(row(late_ns={LOCK: 80}, stalled=(10, 30, 80))) == {}

    def test_longer_stalls_are_lost_but_for_the_ceiling(self, loss: FeedingLoss) -> None:
        """Then ten of 1,000: no more than 11 - 3 of each were hidden."""
        loss.update(row(late_ns={LOCK: 80}, stalled=(10, 30, 80)))
        later = row(late_ns={LOCK: 80, RUNNABLE: 10_000}, stalled=(20, 60, 10_080))

        assert loss.update(later) == {RUNNABLE: 10_000 - 80}

    def test_a_quieter_time_lowers_the_ceiling(self, loss: FeedingLoss) -> None:
        """Stalls of 1,000 from the start on, then ten of 8, then of 1,000 again."""
        loss.update(row(late_ns={IO: 10_000}, stalled=(10, 30, 10_000)))
        quiet = loss.update(row(late_ns={IO: 10_080}, stalled=(20, 60, 10_080)))

        assert quiet == {}
        assert loss.update(row(late_ns={IO: 20_080}, stalled=(30, 90, 20_080))) == {IO: 10_000 - 80}

    def test_longer_waits_raise_it(self, loss: FeedingLoss) -> None:
        """The job gives the GPU more to do: waits of 500 after stalls of 100 are nothing to worry about, nor the next."""
        loss.update(row(late_ns={LOCK: 80}, stalled=(10, 30, 80)))
        loss.update(row(late_ns={LOCK: 1_080}, stalled=(20, 5_030, 1_080)))

        assert loss.update(row(late_ns={LOCK: 2_080}, stalled=(30, 10_030, 2_080))) == {}

    def test_variation_is_no_loss(self, loss: FeedingLoss) -> None:
        """Waits and stalls of 110 together, then of 115: within a sixteenth."""
        loss.update(row(late_ns={LOCK: 100}, stalled=(10, 1_000, 100)))

        assert loss.update(row(late_ns={LOCK: 200}, stalled=(20, 2_050, 200))) == {}

    def test_fewer_than_five_cycles_are_put_off(self, loss: FeedingLoss) -> None:
        """Four say nothing yet; with the fifth they are the ceiling."""
        assert loss.update(row(late_ns={IO: 400}, stalled=(4, 4, 400))) == {}
        assert loss.update(row(late_ns={IO: 500}, stalled=(5, 5, 500))) == {}


class TestOpen:
    """A stall that has not ended: the kernel has booked nothing of it."""

    def test_it_is_lost_as_it_goes_on(self, loss: FeedingLoss) -> None:
        """Since 100; at 130, then at 150."""
        stalled = row(since_ns=100, is_dry=True)

        assert loss.update(stalled, OpenStall(IO, LONG, 130)) == {IO: 30}
        assert loss.update(stalled, OpenStall(IO, LONG, 150)) == {IO: 20}

    def test_it_is_lost_once_when_it_ends(self, loss: FeedingLoss) -> None:
        """30 were advanced of 35."""
        loss.update(row(since_ns=100, is_dry=True), OpenStall(IO, LONG, 130))

        assert loss.update(row(dry_ns={IO: 35})) == {IO: 5}

    def test_what_was_advanced_is_taken_off_whatever_it_turns_out_to_be(self, loss: FeedingLoss) -> None:
        """It was waiting for the disk when looked at; in the end 20 were for the disk, and 15 for a CPU."""
        loss.update(row(since_ns=100, is_dry=True), OpenStall(IO, LONG, 130))

        assert sum(loss.update(row(dry_ns={IO: 20, RUNNABLE: 15})).values()) == 5

    def test_what_its_thread_did_before_is_not_guessed(self, loss: FeedingLoss) -> None:
        """It was stopped for 115 and went on 15 ago: what it waits for now is no reason of the rest."""
        loss.update(row(since_ns=100, is_dry=True))

        assert loss.update(row(since_ns=100, is_dry=True), OpenStall(LOCK, 15, 230)) == {LOCK: 15}

    def test_next_one_is_lost_as_well(self, loss: FeedingLoss) -> None:
        """30 of one that ended at 135, then 10 of the next."""
        loss.update(row(since_ns=100, is_dry=True), OpenStall(IO, LONG, 130))

        assert loss.update(row(dry_ns={IO: 35}, since_ns=200, is_dry=True), OpenStall(IO, LONG, 210)) == {IO: 15}

    def test_behind_the_gpu_s_work_it_begins_after_a_usual_wait(self, loss: FeedingLoss) -> None:
        """Waits take 100: of 130 the GPU may have worked for 100."""
        loss.update(row(clean=(10, 1_000)))

        assert loss.update(row(clean=(10, 1_000), since_ns=100), OpenStall(LOCK, LONG, 230)) == {LOCK: 30}

    def test_nothing_is_advanced_while_the_state_of_the_gpu_is_unknown(self, loss: FeedingLoss) -> None:
        """It may work for hours."""
        assert loss.update(row(since_ns=100), OpenStall(LOCK, LONG, 10_000)) == {}

    def test_idle_thread_loses_nothing(self, loss: FeedingLoss) -> None:
        """It became idle before the stall began."""
        assert loss.update(row(since_ns=100, is_dry=True), OpenStall(LOCK, LONG, 90)) == {}
