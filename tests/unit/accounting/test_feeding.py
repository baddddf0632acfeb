"""feeding: stalls of the feeding timeline, dry ones and late ones."""

from __future__ import annotations

import pytest

from exporter.accounting.feeding import FeedingLoss, LateStalls, OpenStall
from exporter.kernel.abi import ThreadState
from exporter.kernel.thread_rows import FeedingRow
from tests.support.tables import By, states_of

IO, LOCK, PIPE, RUNNABLE = ThreadState.IO, ThreadState.LOCK, ThreadState.PIPE, ThreadState.RUNNABLE
LONG = 1_000_000  # in that state for longer than the stall


def row(
    dry_ns: By | None = None,
    late_ns: By | None = None,
    *,
    waits: int = 0,
    cycle_late_ns: int = 0,
    since_ns: int = 0,
    is_dry: bool = False,
) -> FeedingRow:
    """A cumulative row."""
    states = (states_of(dry_ns or {}), states_of(late_ns or {}))
    return FeedingRow(1, 0, since_ns, is_dry, *states, cycle_late_ns, 0, waits, *(0,) * 5)


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
    """The GPU may have had something to do: the waits decide how much of the stalls was lost."""

    def test_loss_is_spread_over_the_states_of_the_stalls(self, loss: FeedingLoss) -> None:
        """Half of each."""
        assert loss.update(row(late_ns={IO: 40, LOCK: 20}, waits=1), LateStalls(30)) == {IO: 20, LOCK: 10}

    def test_hidden_stall_is_not_lost(self, loss: FeedingLoss) -> None:
        """The wait was shorter for it."""
        assert loss.update(row(late_ns={IO: 60}, waits=1), LateStalls(0)) == {}

    def test_stall_whose_wait_comes_later_is_not_forgotten(self, loss: FeedingLoss) -> None:
        """States of one tick, the wait of the next."""
        loss.update(row(late_ns={LOCK: 60}, cycle_late_ns=60))

        assert loss.update(row(late_ns={LOCK: 60}, waits=1), LateStalls(60)) == {LOCK: 60}

    def test_stall_that_is_decided_later_is_not_forgotten(self, loss: FeedingLoss) -> None:
        """Its wait is over, but a usual one is not known yet."""
        loss.update(row(late_ns={LOCK: 60}, waits=1), LateStalls(undecided_ns=60))

        assert loss.update(row(late_ns={LOCK: 60}, waits=2), LateStalls(60)) == {LOCK: 60}

    def test_states_of_losses_booked_before_do_not_count_again(self, loss: FeedingLoss) -> None:
        """First a lock, then a disk."""
        loss.update(row(late_ns={LOCK: 60}, waits=1), LateStalls(60))

        assert loss.update(row(late_ns={LOCK: 60, IO: 60}, waits=2), LateStalls(60)) == {IO: 60}

    def test_hidden_stall_says_nothing_of_later_ones(self, loss: FeedingLoss) -> None:
        """A lock that cost nothing, then a disk."""
        loss.update(row(late_ns={LOCK: 60}, waits=1))

        assert loss.update(row(late_ns={LOCK: 60, IO: 60}, waits=2), LateStalls(60)) == {IO: 60}

    def test_stall_of_the_open_cycle_keeps_its_state(self, loss: FeedingLoss) -> None:
        """Two stalls of 60; the wait behind the second one is of the next tick."""
        loss.update(row(late_ns={IO: 120}, waits=1, cycle_late_ns=60), LateStalls(60))

        assert loss.update(row(late_ns={IO: 120}, waits=2), LateStalls(60)) == {IO: 60}

    def test_loss_whose_states_are_read_later_is_not_forgotten(self, loss: FeedingLoss) -> None:
        """The waits are read after the timeline, and know more."""
        assert loss.update(row(), LateStalls(60)) == {}
        assert loss.update(row(late_ns={IO: 60}, waits=1)) == {IO: 60}

    def test_dry_and_late_add_up(self, loss: FeedingLoss) -> None:
        """They are of different times."""
        assert loss.update(row({PIPE: 7}, {PIPE: 60}, waits=1), LateStalls(60)) == {PIPE: 67}


class TestOpen:
    """A stall that has not ended: the kernel has booked nothing of it."""

    def test_it_is_lost_as_it_goes_on(self, loss: FeedingLoss) -> None:
        """Since 100; at 130, then at 150."""
        stalled = row(since_ns=100, is_dry=True)

        assert loss.update(stalled, stall=OpenStall(IO, LONG, 130)) == {IO: 30}
        assert loss.update(stalled, stall=OpenStall(IO, LONG, 150)) == {IO: 20}

    def test_it_is_lost_once_when_it_ends(self, loss: FeedingLoss) -> None:
        """30 were advanced of 35."""
        loss.update(row(since_ns=100, is_dry=True), stall=OpenStall(IO, LONG, 130))

        assert loss.update(row(dry_ns={IO: 35})) == {IO: 5}

    def test_what_was_advanced_is_taken_off_whatever_it_turns_out_to_be(self, loss: FeedingLoss) -> None:
        """It was waiting for the disk when looked at; in the end 20 were for the disk, and 15 for a CPU."""
        loss.update(row(since_ns=100, is_dry=True), stall=OpenStall(IO, LONG, 130))

        assert sum(loss.update(row(dry_ns={IO: 20, RUNNABLE: 15})).values()) == 5

    def test_what_its_thread_did_before_is_not_guessed(self, loss: FeedingLoss) -> None:
        """It was stopped for 115 and went on 15 ago: what it waits for now is no reason of the rest."""
        loss.update(row(since_ns=100, is_dry=True))

        assert loss.update(row(since_ns=100, is_dry=True), stall=OpenStall(LOCK, 15, 230)) == {LOCK: 15}

    def test_next_one_is_lost_as_well(self, loss: FeedingLoss) -> None:
        """30 of one that ended at 135, then 10 of the next."""
        loss.update(row(since_ns=100, is_dry=True), stall=OpenStall(IO, LONG, 130))

        assert loss.update(row(dry_ns={IO: 35}, since_ns=200, is_dry=True), stall=OpenStall(IO, LONG, 210)) == {IO: 15}

    def test_behind_the_gpu_s_work_it_begins_after_a_usual_wait(self, loss: FeedingLoss) -> None:
        """Waits take 100: of 130 the GPU may have worked for 100."""
        late = LateStalls(longest_wait_ns=100)

        assert loss.update(row(since_ns=100), late, OpenStall(LOCK, LONG, 230)) == {LOCK: 30}

    def test_nothing_is_advanced_while_the_state_of_the_gpu_is_unknown(self, loss: FeedingLoss) -> None:
        """It may work for hours."""
        assert loss.update(row(since_ns=100), stall=OpenStall(LOCK, LONG, 10_000)) == {}

    def test_idle_thread_loses_nothing(self, loss: FeedingLoss) -> None:
        """It became idle before the stall began."""
        assert loss.update(row(since_ns=100, is_dry=True), stall=OpenStall(LOCK, LONG, 90)) == {}
