"""change: a job is slower when it has lost more than its own variation explains."""

from __future__ import annotations

from exporter.chains.cusum import Cusum
from tests.unit.chains.job import SECOND

TICK_NS = SECOND // 4


def alarm_after(share: float, *, spread: float = 0.0, ticks: int = 400) -> int | None:
    """How many ticks in which this share of the time is lost; None for no alarm."""
    test = Cusum()
    for tick in range(1, ticks + 1):
        test.add(share * TICK_NS, TICK_NS, tick * TICK_NS, spread=spread)
        if test.is_alarm:
            return tick
    return None


class TestAlarm:
    """120 ms beyond an allowance of 2 %."""

    def test_half_of_the_time_is_two_ticks(self) -> None:
        """48 % of 250 ms are 120 ms, rounded down: the second one."""
        assert alarm_after(0.5) == 1
        assert alarm_after(0.4) == 2

    def test_a_sixth_of_the_time_is_less_than_a_second(self) -> None:
        """14.7 % of 250 ms are 37 ms."""
        assert alarm_after(1 / 6) == 4

    def test_a_twentieth_of_the_time_is_some_seconds(self) -> None:
        """3 % of 250 ms are 7.5 ms."""
        assert alarm_after(0.05) == 16

    def test_what_is_allowed_never_is(self) -> None:
        """2 %."""
        assert alarm_after(0.02) is None

    def test_job_that_varies_may_lose_more(self) -> None:
        """A second differs by 10 %: 15 % are allowed, and 600 ms must be lost beyond them."""
        assert alarm_after(0.15, spread=0.1) is None
        assert alarm_after(0.36, spread=0.1) == 12

    def test_what_is_gained_makes_up_for_what_was_lost(self) -> None:
        """One slow tick, one fast one."""
        test = Cusum()
        for tick in range(1, 100):
            test.add((0.3 if tick % 2 else -0.3) * TICK_NS, TICK_NS, tick * TICK_NS, spread=0.0)

        assert not test.is_alarm


class TestBegin:
    """Since when."""

    def test_what_was_lost_counts_from_its_begin(self) -> None:
        """Nothing is subtracted, and what was lost before it was made up for is left out."""
        test = Cusum()
        for tick, lost_ns in enumerate((10_000_000, -50_000_000, 20_000_000, 30_000_000), start=1):
            test.add(lost_ns, TICK_NS, tick * TICK_NS, spread=0.0)

        assert (test.began_ns, test.lost_ns) == (2 * TICK_NS, 50_000_000)

    def test_accused_one_has_lost_nothing_of_its_own_yet(self) -> None:
        """What it had lost before belongs to another begin."""
        test = Cusum()
        test.add(10_000_000, TICK_NS, TICK_NS, spread=0.0)
        test.start_at(7)

        assert (test.began_ns, test.lost_ns, test.is_alarm) == (7, 0.0, True)

    def test_it_begins_with_the_first_loss(self) -> None:
        """Not with the alarm, and not with a hitch that was made up for."""
        test = Cusum()
        for tick, share in enumerate((0.1, -0.5, 0.0, 0.2, 0.2, 0.2), 1):
            test.add(share * TICK_NS, TICK_NS, tick * TICK_NS, spread=0.0)

        assert test.is_alarm
        assert test.began_ns == 3 * TICK_NS
