"""clock: one reading of the monotonic clock, and the time of day that belongs to it."""

from __future__ import annotations

from exporter.clock import Clock, Moment

BOOTED_UNIX_NS = 1_790_000_000_000_000_000
MILLISECOND_NS = 1_000_000


class Hands:
    """Two clocks that are set by hand. monotonic_ns: since the start. difference_ns: what the time of day is ahead by."""

    def __init__(self) -> None:
        self.monotonic_ns = 1_000_000_000
        self.difference_ns = BOOTED_UNIX_NS
        self.clock = Clock(lambda: self.monotonic_ns, lambda: self.monotonic_ns + self.difference_ns)

    def later(self, *, elapsed_ns: int = 0, set_by_ns: int = 0) -> Moment:
        """A moment after time has passed and the time of day was moved."""
        self.monotonic_ns += elapsed_ns
        self.difference_ns += set_by_ns
        return self.clock.now()


class TestMoments:
    """A point in time in both clocks."""

    def test_time_of_day_of_an_earlier_reading_is_as_much_earlier(self) -> None:
        """A call that returned 3 s ago by the programs' clock."""
        now = Moment(monotonic_ns=10_000_000_000, unix_ns=BOOTED_UNIX_NS + 10_000_000_000)

        assert now.unix_ns_of(7_000_000_000) == BOOTED_UNIX_NS + 7_000_000_000

    def test_time_of_day_of_the_reading_itself_is_the_moment_s(self) -> None:
        """To the nanosecond, which a float would not hold."""
        now = Moment(monotonic_ns=123, unix_ns=BOOTED_UNIX_NS + 1)

        assert now.unix_ns_of(123) == 1_790_000_000_000_000_001


class TestReading:
    """What Clock tells."""

    def test_moment_has_both_clocks(self) -> None:
        """Two seconds after the start."""
        now = Hands().later(elapsed_ns=1_000_000_000)

        assert now == Moment(2_000_000_000, BOOTED_UNIX_NS + 2_000_000_000)

    def test_small_difference_between_two_readings_is_not_passed_on(self) -> None:
        """The two clocks are read one after the other; one event must not have two timestamps in two expositions."""
        hands = Hands()

        first = hands.later(elapsed_ns=1_000, set_by_ns=70_000)
        second = hands.later(elapsed_ns=1_000_000_000, set_by_ns=-90_000)
        assert first.unix_ns_of(500) == second.unix_ns_of(500) == BOOTED_UNIX_NS + 500

    def test_half_a_second_is_not_passed_on_and_more_is(self) -> None:
        """The time of day was set; forwards and back."""
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

    def test_slow_drift_is_passed_on_once_it_is_half_a_second(self) -> None:
        """Drift adds up against the difference that is in use, not from one reading to the next."""
        hands = Hands()
        offsets = [
            moment.unix_ns - moment.monotonic_ns - BOOTED_UNIX_NS
            for moment in (hands.later(set_by_ns=200 * MILLISECOND_NS) for _ in range(4))
        ]

        assert offsets == [0, 0, 600 * MILLISECOND_NS, 600 * MILLISECOND_NS]

    def test_monotonic_time_is_never_touched(self) -> None:
        """Whatever becomes of the time of day."""
        hands = Hands()

        assert hands.later(elapsed_ns=5, set_by_ns=-3_600_000_000_000).monotonic_ns == 1_000_000_005

    def test_real_clocks_tell_this_time(self) -> None:
        """Without arguments they are the kernel's."""
        clock = Clock()
        first, second = clock.now(), clock.now()

        assert second.monotonic_ns >= first.monotonic_ns > 0
        assert first.unix_ns > 1_700_000_000_000_000_000
