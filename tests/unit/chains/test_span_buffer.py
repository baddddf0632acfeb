"""span_buffer: recent states of a process, what was lost against its baseline, and its windows."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.span import Collective, ProcessState
from exporter.chains.span_buffer import SpanBuffer
from tests.unit.chains.job import SECOND, TICK_NS, TICKS
from tests.unit.chains.states import MS, a_state

BEGAN_NS = 1_000 * SECOND


class Buffer:
    """The buffer of a job with 50 calls in a step."""

    def __init__(self) -> None:
        self.past = SpanBuffer()
        self._now_ns = BEGAN_NS
        self._steps = 0.0
        self._steps_ns = 0.0

    def go_on(self, seconds: float, step_ms: float = 10.0, *, is_quiet: bool = True, is_suspect: bool = False) -> None:
        for _ in range(round(seconds * TICKS)):
            self._now_ns += TICK_NS
            made = TICK_NS / (step_ms * MS)
            self._steps_ns += (int(self._steps + made) - int(self._steps)) * step_ms * MS
            self._steps += made
            age_ns = (self._steps - int(self._steps)) * step_ms * MS
            self.past.add(
                a_state(
                    self._now_ns / SECOND,
                    steps=int(self._steps),
                    steps_ns=round(self._steps_ns),
                    step_began_ns=self._now_ns - round(age_ns),
                    calls=50 * int(self._steps),
                )
            )
            self.past.learn(is_quiet=is_quiet, is_suspect=is_suspect)


@pytest.fixture
def known() -> Buffer:
    """Its baseline is known: ten seconds of steps of 10 ms."""
    buffer = Buffer()
    buffer.go_on(10)
    return buffer


class TestRhythm:
    def test_it_is_known_after_five_windows(self) -> None:
        """The first tick opens the first window."""
        buffer = Buffer()
        buffer.go_on(5)
        before = buffer.past.has_rhythm
        buffer.go_on(0.25)

        assert (before, buffer.past.has_rhythm) == (False, True)
        assert buffer.past.pace_ns == 10 * MS

    def test_ranks_are_those_of_its_communicators(self) -> None:
        """None before the first state."""
        past = SpanBuffer()
        before = past.ranks
        past.add(a_state(1, collectives={77: Collective(3, 5, 0)}))

        assert (before, past.ranks) == ({}, {77: 3})


class TestLate:
    """Time lost against the baseline, tick by tick."""

    def test_slow_steps_add_what_they_take_longer(self, known: Buffer) -> None:
        """Two seconds with half as many steps."""
        known.go_on(2, 20.0, is_quiet=False)

        assert known.past.recent(2 * SECOND).late_share == pytest.approx(0.5, abs=0.01)

    def test_fast_steps_make_up_for_it(self, known: Buffer) -> None:
        known.go_on(2, 8.0, is_quiet=False)

        assert known.past.recent(2 * SECOND).late_share == pytest.approx(-0.25, abs=0.01)

    def test_nothing_is_late_before_the_baseline_is_known(self) -> None:
        buffer = Buffer()
        buffer.go_on(3, 20.0)

        assert buffer.past.last.late_ns == 0.0
        assert buffer.past.add(a_state(1_003.25)) is None

    def test_without_steps_it_is_what_was_lost_beyond_the_usual(self) -> None:
        """A tenth of the time to a disk, then a half."""
        past, lost_ns = SpanBuffer(), 0
        for tick in range(1, 45):
            lost_ns += (TICK_NS // 10) if tick <= 40 else TICK_NS // 2
            state = a_state(1_000 + tick / TICKS, calls=12 * tick, lost_ns={(Cause.BLOCK_IO, ""): lost_ns})
            past.add(state)
            past.learn(is_quiet=tick <= 40, is_suspect=False)

        assert past.recent().late_share == pytest.approx(0.4)


class TestLearning:
    """Windows become part of the regime when nothing was wrong."""

    def test_window_that_was_not_quiet_is_left_out(self, known: Buffer) -> None:
        known.go_on(30, 10.8, is_quiet=False)

        assert known.past.usual.step_ns == pytest.approx(10 * MS)

    def test_suspicious_windows_wait_until_they_prove_harmless(self, known: Buffer) -> None:
        """Slowness that comes gradually would become the baseline itself."""
        known.go_on(30, 10.8, is_suspect=True)
        before = known.past.usual.step_ns
        known.go_on(0.25, 10.8)

        assert before == pytest.approx(10 * MS)
        assert known.past.usual.step_ns == pytest.approx(10.8 * MS)

    def test_suspicious_windows_of_an_episode_are_dropped(self, known: Buffer) -> None:
        """An alarm came after them."""
        known.go_on(30, 10.8, is_suspect=True)
        known.go_on(0.25, 10.8, is_quiet=False)
        known.go_on(2)

        assert known.past.usual.step_ns == pytest.approx(10 * MS)

    def test_after_a_restart_nothing_before_is_compared_with(self, known: Buffer) -> None:
        """The level before a moment needs three windows since then."""
        known.past.restart()
        known.go_on(2)
        too_early = known.past.baseline.level_before(known.past.last.now_ns)
        known.go_on(2)

        assert too_early is None
        assert known.past.baseline.level_before(known.past.last.now_ns) is not None


class TestKept:
    """As many states as a verdict needs."""

    def test_ten_seconds_are_kept(self, known: Buffer) -> None:
        """At four ticks a second."""
        known.go_on(30)
        past = known.past

        assert past.last.now_ns - past.first.now_ns == 10 * SECOND

    def test_long_steps_keep_more(self) -> None:
        """Four times eight steps of two seconds, in at most so many states as ten seconds have."""
        buffer = Buffer()
        buffer.go_on(200, 2000.0)
        past = buffer.past

        assert (past.last.now_ns - past.first.now_ns) / SECOND == pytest.approx(64, abs=2)

    def test_half_a_minute_is_marked(self, known: Buffer) -> None:
        """For a job that was never better."""
        known.go_on(60)
        span = known.past.long

        assert (span.now.now_ns - span.then.now_ns) / SECOND == pytest.approx(30, abs=1)

    def test_recent_spans_hold_two_steps(self) -> None:
        """Steps of four seconds each: eight seconds, not one."""
        buffer = Buffer()
        buffer.go_on(100, 4000.0)

        assert buffer.past.recent().wall_ns / SECOND == pytest.approx(8, abs=1)


class TestSince:
    """The state at a moment."""

    def test_it_is_the_latest_up_to_the_moment(self, known: Buffer) -> None:
        found = known.past.since(BEGAN_NS + 7 * SECOND + TICK_NS // 2)

        assert found.now_ns == BEGAN_NS + 7 * SECOND

    def test_moment_before_all_leads_to_the_first(self, known: Buffer) -> None:
        assert known.past.since(0) == known.past.first

    def test_within_an_idle_time_it_is_interpolated(self) -> None:
        """Two states are kept of ten idle seconds."""
        past = SpanBuffer()
        for second in range(11):
            past.add(a_state(100 + second))
        found = past.since(round(104.5 * SECOND))

        assert isinstance(found, ProcessState)
        assert found.now_ns == 104.5 * SECOND


class TestOnset:
    """The likeliest onset of what has been lost."""

    def test_it_is_where_the_steps_became_slow(self, known: Buffer) -> None:
        """Three quiet seconds after the earliest candidate."""
        earliest = known.past.last
        known.go_on(3)
        known.go_on(2, 20.0, is_quiet=False)
        found = known.past.onset(earliest, known.past.last.now_ns, 0.0)

        assert found.now_ns == BEGAN_NS + 13 * SECOND


class TestAllowed:
    @pytest.mark.parametrize(("spread", "allowed"), [(0.0, 0.02), (0.01, 0.02), (0.1, 0.15)])
    def test_it_is_two_percent_or_its_own_variation(self, spread: float, allowed: float) -> None:
        assert SpanBuffer().allowed(spread) == pytest.approx(allowed)
