"""feeding: stalls of the feeding timeline, dry ones and late ones."""

from __future__ import annotations

import pytest

from exporter.accounting.feeding import FeedingLoss
from exporter.kernel.abi import ThreadState
from exporter.kernel.thread_rows import FeedingRow
from tests.support.tables import By, states_of

IO, LOCK, PIPE, RUNNABLE = ThreadState.IO, ThreadState.LOCK, ThreadState.PIPE, ThreadState.RUNNABLE


def row(
    dry_ns: By | None = None,
    late_ns: By | None = None,
    clean: tuple[int, int] = (0, 0),
    stalled: tuple[int, int, int] = (0, 0, 0),
) -> FeedingRow:
    """A cumulative row. clean: waits, their time. stalled: waits, their time, the late stalls before them."""
    return FeedingRow(1, 0, 0, 0, states_of(dry_ns or {}), states_of(late_ns or {}), 0, *clean, *stalled)


@pytest.fixture
def loss() -> FeedingLoss:
    """Of a new process."""
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

    def test_without_enough_clean_waits_nothing_is_said(self, loss: FeedingLoss) -> None:
        """Neither now nor later: a job that always stalls has no usual wait."""
        first = loss.update(row(late_ns={IO: 60}, clean=(4, 400), stalled=(1, 90, 60)))
        second = loss.update(row(late_ns={IO: 60}, clean=(5, 500), stalled=(1, 90, 60)))

        assert (first, second) == ({}, {})

    def test_dry_and_late_add_up(self, loss: FeedingLoss) -> None:
        """They are of different times."""
        assert loss.update(row({PIPE: 7}, {PIPE: 60}, clean=(10, 1_000), stalled=(1, 100, 60))) == {PIPE: 67}
