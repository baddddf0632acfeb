"""accounting.self_check: how far the accounting is off."""

from __future__ import annotations

import pytest

from exporter.accounting.self_check import SelfCheck
from exporter.kernel.abi import ThreadState
from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables

ON_CPU, RUNNABLE, THROTTLED = ThreadState.ON_CPU, ThreadState.RUNNABLE, ThreadState.THROTTLED


class Watched:
    """One thread, compared at every reading."""

    def __init__(self) -> None:
        self._kernel = FakeTables()
        self._oracle = SelfCheck()

    def errors(
        self,
        read_ns: int,
        *,
        on_cpu_ns: int = 0,
        runnable_ns: int = 0,
        throttled_ns: int = 0,
        run_delay_ns: int = 0,
        wakes: int = 0,
        state: ThreadState = ON_CPU,
        tid: int = 11,
    ) -> dict[str, float]:
        """After a reading of these cumulative sums."""
        self._kernel.thread(
            1,
            tid,
            state=state,
            read_ns=read_ns,
            booked_ns={ON_CPU: on_cpu_ns, RUNNABLE: runnable_ns, THROTTLED: throttled_ns},
            run_delay_ns=run_delay_ns,
            wakes=wakes,
        )
        self._oracle.update(Tables(self._kernel.maps, self._kernel.iterate).read_accounts([1]).threads)
        return self._oracle.errors()


@pytest.fixture
def watched() -> Watched:
    """Never read."""
    return Watched()


class TestWall:
    """All states together against the time that went by."""

    def test_first_reading_says_nothing(self, watched: Watched) -> None:
        """There is nothing to compare with."""
        assert watched.errors(1_000, on_cpu_ns=1) == {"runnable": 0.0, "wall": 0.0}

    def test_states_that_add_up_are_no_error(self, watched: Watched) -> None:
        """To the nanosecond."""
        watched.errors(1_000)

        assert watched.errors(2_000, on_cpu_ns=1_000)["wall"] == 0.0

    @pytest.mark.parametrize("booked_ns", [900, 1_100])
    def test_missing_and_surplus_are_errors(self, watched: Watched, booked_ns: int) -> None:
        """A tenth, either way."""
        watched.errors(1_000)

        assert watched.errors(2_000, on_cpu_ns=booked_ns)["wall"] == 0.1

    def test_next_thread_with_the_same_number_is_another(self, watched: Watched) -> None:
        """The first had booked nine times as much: it is not compared with it, and then with itself."""
        watched.errors(9_000, on_cpu_ns=9_000)

        assert watched.errors(10_000, on_cpu_ns=500)["wall"] == 0.0
        assert watched.errors(11_000, on_cpu_ns=1_400)["wall"] == 0.1

    def test_error_is_one_of_everything_measured(self, watched: Watched) -> None:
        """A tenth of the first half is a twentieth."""
        watched.errors(1_000)
        watched.errors(2_000, on_cpu_ns=900)

        assert watched.errors(3_000, on_cpu_ns=1_900)["wall"] == 0.05


class TestRunnable:
    """Waits for a CPU against run_delay."""

    def test_equal_sums_are_no_error(self, watched: Watched) -> None:
        """The kernel counts throttled time as waiting."""
        watched.errors(0)

        assert watched.errors(1_000, runnable_ns=600, throttled_ns=400, run_delay_ns=1_000)["runnable"] == 0.0

    def test_less_than_the_kernel_knows_is_an_error(self, watched: Watched) -> None:
        """It never counts too much."""
        watched.errors(0)

        assert watched.errors(1_000, runnable_ns=750, run_delay_ns=1_000)["runnable"] == 0.25

    def test_forty_microseconds_a_wake_up_are_no_error(self, watched: Watched) -> None:
        """The kernel leaves them out; 20 us more than 2 wake-ups allow are one, of 100."""
        watched.errors(0)
        allowed = watched.errors(100_000, runnable_ns=80_000, wakes=2)["runnable"]

        assert allowed == 0.0
        assert watched.errors(200_000, runnable_ns=180_000, wakes=4)["runnable"] == pytest.approx(20 / 180)

    def test_thread_that_waits_is_compared_when_it_runs_again(self, watched: Watched) -> None:
        """Its wait so far is booked, and not yet in the kernel's sum."""
        watched.errors(0)
        waiting = watched.errors(1_000, runnable_ns=1_000, state=RUNNABLE)

        assert waiting == {"runnable": 0.0, "wall": 0.0}
        assert watched.errors(2_000, runnable_ns=1_500, on_cpu_ns=500, run_delay_ns=1_500) == {
            "runnable": 0.0,
            "wall": 0.0,
        }
