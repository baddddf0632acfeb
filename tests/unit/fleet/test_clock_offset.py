"""clock_offset: how far two clocks are apart, and the bound within which that is true."""

from __future__ import annotations

from random import Random

import pytest

from exporter.fleet.clock_offset import ClockOffset, ClockSample, clock_offset, offset_text, offset_warning
from exporter.fleet.clock_reading import ClockReading, NodeClock
from exporter.host.kernel_clock import KernelClock
from exporter.text.untrusted import Untrusted

MS = 1_000_000
UNKNOWN = KernelClock()
SYNCHRONIZED = KernelClock(is_synchronized=True, max_error_ns=2 * MS)


def sample(sent_ns: int, ways_ns: tuple[int, int], ahead_ns: int, taken_ns: int = 1_000) -> ClockSample:
    """The monotonic clocks of both machines are alike; the node's time of day is ahead."""
    arrived_ns = sent_ns + ways_ns[0]
    answered_ns = arrived_ns + taken_ns
    received_ns = answered_ns + ways_ns[1]
    return ClockSample(
        ClockReading(sent_ns, sent_ns),
        NodeClock(
            ClockReading(arrived_ns + ahead_ns, arrived_ns), ClockReading(answered_ns + ahead_ns, answered_ns), UNKNOWN
        ),
        ClockReading(received_ns, received_ns),
    )


class SimulatedClock:
    """Time of day and monotonic clock, in nanoseconds of true time; both run fast or slow alike."""

    def __init__(self, random: Random) -> None:
        self._rate_parts = random.randint(-500, 500)
        self._booted_ns = random.randint(0, 10**15)
        self.day_ns = random.randint(10**18, 2 * 10**18)

    def read(self, true_ns: int, within_ns: int) -> ClockReading:
        """within_ns: the time of day is read so much after the monotonic clock."""
        return ClockReading(
            self.day_ns + self._scaled(true_ns + within_ns), self._booted_ns + self._scaled(true_ns), within_ns * 2
        )

    def _scaled(self, true_ns: int) -> int:
        return true_ns + true_ns * self._rate_parts // 1_000_000


class TestOffset:
    def test_sample_with_the_shortest_trip_counts(self) -> None:
        """Trips of 8 ms and 2 ms: half of 2 ms, 1,000 ppm of the 11 ms since the better one was sent, and 3 ns of rounding."""
        samples = [sample(0, (1 * MS, 1 * MS), 5 * MS, 0), sample(3 * MS, (8 * MS, 0), 5 * MS, 0)]

        assert clock_offset(samples, UNKNOWN) == ClockOffset(5 * MS, 1 * MS + 11_000 + 3, None)

    def test_unequal_ways_are_within_the_bound(self) -> None:
        """All of the trip is one way, so that the middle is wrong by half of it."""
        found = clock_offset([sample(0, (2 * MS, 0), 0, 0)], UNKNOWN)

        assert found.ahead_ns == 1 * MS
        assert found.bound_ns >= 1 * MS

    def test_clock_that_is_set_between_samples_is_followed(self) -> None:
        """The best sample is from before: 5 ms ahead; since then it is 50 ms behind."""
        samples = [sample(0, (1_000, 1_000), 5 * MS), sample(10 * MS, (4 * MS, 4 * MS), -50 * MS)]

        assert clock_offset(samples, UNKNOWN).ahead_ns == -50 * MS

    def test_kernels_say_how_far_apart_they_may_be(self) -> None:
        """Errors of 2 ms each."""
        one = sample(0, (1, 1), 0)
        synchronized = one._replace(node=one.node._replace(kernel=SYNCHRONIZED))

        assert clock_offset([synchronized], SYNCHRONIZED).kernel_bound_ns == 4 * MS
        assert clock_offset([one], SYNCHRONIZED).kernel_bound_ns is None
        unsynchronized = KernelClock(is_synchronized=False, max_error_ns=16_000 * MS)
        assert clock_offset([synchronized], unsynchronized).kernel_bound_ns is None

    def test_node_whose_clock_is_faster_may_take_longer_than_the_whole(self) -> None:
        """300 ppm over 1 s, with ways of 1 ns: 0.3 ms too long."""
        one = sample(0, (1, 1), 0, 1_000 * MS)
        answered = one.node.sent._replace(monotonic_ns=one.node.sent.monotonic_ns + 300_000)

        assert clock_offset([one._replace(node=one.node._replace(sent=answered))], UNKNOWN).bound_ns >= 1 * MS

    @pytest.mark.parametrize("taken_ns", [-1, 10])
    def test_node_that_contradicts_itself_is_refused(self, taken_ns: int) -> None:
        """It answered before it had the request, or says that it took 10 ns of the 8 ns that there were."""
        one = sample(0, (1, 1), 0, 6)
        answered = one.node.sent._replace(monotonic_ns=one.node.received.monotonic_ns + taken_ns)

        with pytest.raises(Untrusted):
            clock_offset([one._replace(node=one.node._replace(sent=answered))], UNKNOWN)

    def test_true_offset_is_within_the_bound_1000_of_1000_times(self) -> None:
        """Delays are random, ways unequal, clocks up to 500 ppm fast or slow, and set before, between and within samples."""
        outside = [seed for seed in range(1_000) if not _is_within(Random(seed))]

        assert outside == []


def _is_within(random: Random) -> bool:
    """Whether the true offset at the last answer is within the stated bound."""
    here, node = SimulatedClock(random), SimulatedClock(random)

    def later(nanoseconds_max: int) -> int:
        nonlocal true_ns
        true_ns += int(nanoseconds_max * random.random() ** 3)
        for clock in (here, node):
            if random.random() < 0.1:
                clock.day_ns += random.randint(-100 * MS, 100 * MS)
        return true_ns

    true_ns = random.randint(0, 10**9)
    samples = []
    for _ in range(random.randint(1, 8)):
        sent = here.read(later(100 * MS), random.randint(0, 500))
        received_there = node.read(later(50 * MS), random.randint(0, 500))
        sent_there = node.read(later(1 * MS), random.randint(0, 500))
        node_day_ns = node.day_ns
        received = here.read(later(50 * MS), random.randint(0, 500))
        samples.append(ClockSample(sent, NodeClock(received_there, sent_there, UNKNOWN), received))
    node.day_ns = node_day_ns  # as of the last answer: what is set after it cannot be known
    found = clock_offset(samples, UNKNOWN)
    truth_ns = node.read(true_ns, 0).unix_ns - here.read(true_ns, 0).unix_ns
    return abs(found.ahead_ns - truth_ns) <= found.bound_ns


class TestText:
    def test_offset_is_stated_with_its_bound(self) -> None:
        assert offset_text("gpu7", ClockOffset(3_200_000, 410_000, 2_100_000)) == (
            "the clock of gpu7 is 3.2 ms ahead, ± 410 us; by both kernels they are within 2.1 ms"
        )

    def test_clock_without_a_daemon_is_stated(self) -> None:
        assert offset_text("gpu7", ClockOffset(-3_200_000, 410_000, None)) == (
            "the clock of gpu7 is 3.2 ms behind, ± 410 us; one of the two is not known to be synchronized"
        )


class TestWarning:
    def test_offset_that_may_be_below_the_limit_has_none(self) -> None:
        """A long round trip is no fault of a clock."""
        assert offset_warning("gpu7", ClockOffset(11 * MS, 1 * MS, None)) == ""
        assert offset_warning("gpu7", ClockOffset(0, 40 * MS, None)) == ""

    def test_offset_above_the_limit_has_one(self) -> None:
        """At least 10 ms and a nanosecond."""
        assert offset_warning("gpu7", ClockOffset(-11 * MS - 1, 1 * MS, None)).endswith(
            "; times that gpu7 reports are not corrected; check `chronyc tracking` on both"
        )

    def test_offset_that_the_kernels_exclude_has_one(self) -> None:
        """3 ms measured, at least 2 ms; both kernels together say 1 ms."""
        assert "one of the two kernels is wrong about its clock" in offset_warning(
            "gpu7", ClockOffset(-3 * MS, 1 * MS, 1 * MS)
        )
