"""clock: readings of the monotonic clock with the time of day that belongs to it."""

from __future__ import annotations

from exporter.clock import Clock, Moment

BOOTED_UNIX_NS = 1_790_000_000_000_000_000
MILLISECOND_NS = 1_000_000


class Hands:
    """Two clocks set by the test. monotonic_ns: since the start. difference_ns: what the time of day is ahead by."""

    def __init__(self) -> None:
        self.monotonic_ns = 1_000_000_000
        self.difference_ns = BOOTED_UNIX_NS
        self.clock = Clock(lambda: self.monotonic_ns, lambda: self.monotonic_ns + self.difference_ns)

    def later(self, *, elapsed_ns: int = 0, set_by_ns: int = 0) -> Moment:
        """A moment after time has passed and the time of day was changed."""
        self.monotonic_ns += elapsed_ns
        self.difference_ns += set_by_ns
        return self.clock.now()


class TestMoments:
    """A point in time in both clocks."""

    def test_time_of_day_of_an_earlier_reading_is_as_much_earlier(self) -> None:
        """A call that returned 3 s ago by the monotonic clock."""
        now = Moment(monotonic_ns=10_000_000_000, unix_ns=BOOTED_UNIX_NS + 10_000_000_000)

        assert now.unix_ns_of(7_000_000_000) == BOOTED_UNIX_NS + 7_000_000_000

    def test_time_of_day_of_its_own_reading_is_exact(self) -> None:
        """To the nanosecond, which a float would not hold."""
        now = Moment(monotonic_ns=123, unix_ns=BOOTED_UNIX_NS + 1)

        assert now.unix_ns_of(123) == 1_790_000_000_000_000_001


class TestReading:
    """Moments of a Clock."""

    def test_moment_has_both_clocks(self) -> None:
        """Two seconds after the start."""
        now = Hands().later(elapsed_ns=1_000_000_000)

        assert now == Moment(2_000_000_000, BOOTED_UNIX_NS + 2_000_000_000)

    def test_small_change_of_the_difference_is_ignored(self) -> None:
        """The two clocks are not read at the same instant; one event must not have two timestamps in two expositions."""
        hands = Hands()

        first = hands.later(elapsed_ns=1_000, set_by_ns=70_000)
        second = hands.later(elapsed_ns=1_000_000_000, set_by_ns=-90_000)
        assert first.unix_ns_of(500) == second.unix_ns_of(500) == BOOTED_UNIX_NS + 500

    def test_change_of_more_than_half_a_second_is_used(self) -> None:
        """The time of day was set forwards or back."""
        hands = Hands()
        moments = [
            hands.later(set_by_ns=500 * MILLISECOND_NS),
            hands.later(set_by_ns=1),
            hands.later(set_by_ns=-500 * MILLISECOND_NS),
            hands.later(set_by_ns=-1),
        ]

        assert [moment.unix_ns - moment.monotonic_ns - BOOTED_UNIX_NS for moment in moments] == [
            0,
            500 * MILLISECOND_NS + 1,
            500 * MILLISECOND_NS + 1,
            0,
        ]

    def test_slow_drift_is_used_when_it_exceeds_half_a_second(self) -> None:
        """It is compared with the difference in use, not with the last reading."""
        hands = Hands()
        offsets = [
            moment.unix_ns - moment.monotonic_ns - BOOTED_UNIX_NS
            for moment in (hands.later(set_by_ns=200 * MILLISECOND_NS) for _ in range(4))
        ]

        assert offsets == [0, 0, 600 * MILLISECOND_NS, 600 * MILLISECOND_NS]

    def test_monotonic_time_is_never_changed(self) -> None:
        """Whatever happens to the time of day."""
        hands = Hands()

        assert hands.later(elapsed_ns=5, set_by_ns=-3_600_000_000_000).monotonic_ns == 1_000_000_005

    def test_real_clocks_are_the_default(self) -> None:
        clock = Clock()
        first, second = clock.now(), clock.now()

        assert second.monotonic_ns >= first.monotonic_ns > 0
        assert first.unix_ns > 1_700_000_000_000_000_000
