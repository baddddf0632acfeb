"""exposed: what of the waiting for a CPU delayed the return of a synchronising call."""

from __future__ import annotations

import pytest

from exporter.accounting.exposed import Exposed, ExposedLoss
from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables

SYNC = "cudaStreamSynchronize"


class Calls:
    """Calls of one process, and what was lost by them."""

    def __init__(self) -> None:
        self.kernel = FakeTables()
        self._tables = Tables(self.kernel.maps)
        self._loss = ExposedLoss()

    def lost(
        self,
        *,
        exact_ns: int = 0,
        bounded: tuple[int, int, int] = (0, 0, 0),
        clean: tuple[int, int] = (0, 0),
        runnable_ns: int = 0,
        throttled_ns: int = 0,
    ) -> Exposed:
        """After these calls. bounded: their number, their time, the bound. clean: number and time."""
        self.kernel.exposure(
            1,
            SYNC,
            exact_ns=exact_ns,
            bounded=bounded,
            clean=clean,
            runnable_ns=runnable_ns,
            throttled_ns=throttled_ns,
        )
        return self._loss.update(self._tables.read_accounts([1]).exposures.items())


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
    """The kernel's bound does not separate quota from contention; the states do."""

    def test_loss_is_split_as_the_waits_were(self, calls: Calls) -> None:
        """A quarter of the waiting was throttled."""
        assert calls.lost(exact_ns=80, runnable_ns=300, throttled_ns=100) == Exposed(60, 20)

    def test_waits_that_lost_nothing_are_not_forgotten(self, calls: Calls) -> None:
        """A loss that is decided later belongs to them."""
        calls.lost(clean=(4, 400), bounded=(1, 130, 50), throttled_ns=50)

        assert calls.lost(clean=(1, 100)) == Exposed(0, 30)

    def test_waits_of_losses_booked_before_do_not_count_again(self, calls: Calls) -> None:
        """First throttled, then not."""
        calls.lost(exact_ns=80, throttled_ns=80)

        assert calls.lost(exact_ns=80, runnable_ns=80) == Exposed(80, 0)


class TestOperations:
    """Each has a baseline of its own."""

    def test_operations_are_added_up(self, calls: Calls) -> None:
        """Exposed waits of one process."""
        calls.kernel.exposure(1, "cudaDeviceSynchronize", exact_ns=5)

        assert calls.lost(exact_ns=70) == Exposed(75, 0)
