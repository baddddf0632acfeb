"""probes.sampling: what probes cost a process, and when only some of its launches are timed."""

from __future__ import annotations

import pytest

from exporter import catalog
from exporter.config.probes import LaunchMode
from exporter.kernel.calibration import CallCost
from exporter.kernel.tables import Tables
from exporter.probes.sampling import SAMPLED_MASK, AdaptiveSampler, spent
from exporter.totals import Series
from tests.support.tables import FakeTables

SECOND = 1_000_000_000
COST = CallCost(timed_ns=2_000.0, counted_ns=500.0)


class Watched:
    """Process 1 under a sampler with a limit of 1 %; a second goes by with every step."""

    def __init__(self, launch_mode: LaunchMode = LaunchMode.FULL) -> None:
        self.kernel = FakeTables()
        self.sampler = AdaptiveSampler(COST, 0.01, launch_mode)
        self._tables = Tables(self.kernel.maps, self.kernel.iterate)
        self._now_ns = 0
        self._hits = (0, 0, 0)

    def step(self, *, seconds: int = 1, timed: int = 0, counted: int = 0) -> dict[int, int]:
        """So many more launches in each of the seconds. Returns the last mask of each process that was changed."""
        changes: dict[int, int] = {}
        for _ in range(seconds):
            self._now_ns += SECOND
            self._hits = (self._hits[0] + timed, self._hits[1] + counted, self._hits[2] + counted)
            self.kernel.feeding(1, hits=self._hits)
            changes |= self.sampler.update(self._tables.read_feeding([1]), self._now_ns)
        return changes

    def value(self, metric: catalog.Metric) -> object:
        """Value of the process."""
        return self.sampler.totals()[1][Series(metric, ())]


@pytest.fixture
def watched() -> Watched:
    """It has made no call."""
    return Watched()


class TestCost:
    """Calls times what a call costs."""

    def test_hits_cost_what_was_measured(self) -> None:
        """10 timed at 2 us, 67 counted at 0.5 us; 63 of those were launches, which would have cost 1.5 us more."""
        kernel = FakeTables()
        kernel.feeding(1, hits=(10, 67, 63))
        row = Tables(kernel.maps).read_feeding([1])[1]

        assert spent(row, COST) == (53_500.0, 148_000.0)

    def test_cost_so_far_is_known_once_the_process_was_seen(self, watched: Watched) -> None:
        """1,000 timed launches in each of two seconds: 4 ms. The mean over a window is another figure."""
        before = watched.sampler.spent_ns()
        watched.step(seconds=2, timed=1000)

        assert (before, watched.sampler.spent_ns()) == ({}, {1: 4_000_000})

    def test_ratio_is_of_the_last_ten_seconds(self, watched: Watched) -> None:
        """4,000 calls of 2 us a second for a minute, then half as many for five seconds: 0.6 % are left of 0.8 %."""
        watched.step(seconds=60, timed=4_000)
        before = watched.value(catalog.workload.OVERHEAD)
        watched.step(seconds=5, timed=2_000)

        assert (before, watched.value(catalog.workload.OVERHEAD)) == (8_000_000, 6_000_000)

    def test_process_that_rests_costs_nothing(self, watched: Watched) -> None:
        """After ten seconds."""
        watched.step(seconds=5, timed=4_000)
        watched.step(seconds=10)

        assert watched.value(catalog.workload.OVERHEAD) == 0

    def test_a_long_rest_is_part_of_the_ten_seconds_after_it(self, watched: Watched) -> None:
        """A minute without a call, then 4,000 of 2 us a second for five seconds: half of 0.8 %."""
        watched.step(seconds=5, timed=4_000)
        watched.step(seconds=60)
        watched.step(seconds=5, timed=4_000)

        assert watched.value(catalog.workload.OVERHEAD) == 4_000_000


class TestTooMuch:
    """More than 1 % of a CPU: 5,000 timed calls a second."""

    def test_after_ten_seconds_launches_are_sampled(self, watched: Watched) -> None:
        """Not before."""
        before = watched.step(seconds=10, timed=5_001)

        assert (before, watched.step(timed=5_001)) == ({}, {1: SAMPLED_MASK})
        assert watched.value(catalog.workload.SAMPLED_PROCESSES) == 1

    def test_what_is_allowed_changes_nothing(self, watched: Watched) -> None:
        """Exactly 1 %."""
        assert watched.step(seconds=30, timed=5_000) == {}
        assert watched.value(catalog.workload.SAMPLED_PROCESSES) == 0

    def test_short_burst_changes_nothing(self, watched: Watched) -> None:
        """Twice the limit for four of ten seconds."""
        watched.step(seconds=10, timed=1_000)

        assert watched.step(seconds=4, timed=10_000) | watched.step(seconds=10, timed=1_000) == {}

    def test_it_stays_so_while_all_launches_would_cost_too_much(self, watched: Watched) -> None:
        """Sampled they cost 0.25 %, in full 1 %."""
        watched.step(seconds=11, timed=6_000)

        assert watched.step(seconds=300, counted=5_000) == {}

    def test_after_a_calm_minute_every_launch_is_timed_again(self, watched: Watched) -> None:
        """In full they would cost 0.4 %, less than half of the limit."""
        watched.step(seconds=11, timed=6_000)
        before = watched.step(seconds=59, counted=2_000)

        assert (before, watched.step(counted=2_000)) == ({}, {1: 0})
        assert watched.value(catalog.workload.SAMPLED_PROCESSES) == 0


class TestDuty:
    """Asked for."""

    def test_launches_are_sampled_from_the_start(self) -> None:
        """And stay so."""
        watched = Watched(LaunchMode.SAMPLED)

        assert watched.step() == {1: SAMPLED_MASK}
        assert watched.step(seconds=100) == {}


class TestProcesses:
    """They come and go."""

    def test_forgotten_process_has_no_metrics(self, watched: Watched) -> None:
        """Its number is not given again."""
        watched.step()
        watched.sampler.forget([1])

        assert watched.sampler.totals() == {}

    def test_it_is_time_once_a_second(self, watched: Watched) -> None:
        """Four ticks."""
        watched.step()

        assert [watched.sampler.is_due(SECOND + later) for later in (0, SECOND - 1, SECOND)] == [False, False, True]
