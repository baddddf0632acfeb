"""spending: growth of a job's own work beyond what as many baseline steps take."""

from __future__ import annotations

import pytest

from exporter.chains.chain import Effect
from exporter.chains.spending import Grown, Spending, Spent, SpentBefore, grown
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_state


def spent(at_seconds: float, steps: int, **so_far: object) -> Spent:
    return Spent(a_state(at_seconds, steps=steps), Spending(**so_far))  # type: ignore[arg-type]


class TestGrown:
    """100 baseline steps in a second, then 50 in another one."""

    def test_calls_count_beyond_what_as_many_steps_took(self) -> None:
        """1 ms in each, then 7 ms: 300 ms of 1 s."""
        found = grown(
            spent(10, 0),
            spent(11, 100, calls_ns={Effect.SYNC: 100 * MS}),
            spent(12, 150, calls_ns={Effect.SYNC: 450 * MS, Effect.ALLOC: 20 * MS}),
        )

        assert found.calls == {Effect.SYNC: pytest.approx(0.3), Effect.ALLOC: pytest.approx(0.02)}

    def test_copies_captures_computing_and_sleeping_count_in_the_same_way(self) -> None:
        """Each 1 ms in a baseline step, then 2, 3, 4 and 5 ms."""
        before = dict.fromkeys(("pageable_ns", "capture_ns", "computing_ns", "sleeping_ns"), 100 * MS)
        now = {
            "pageable_ns": 200 * MS,
            "capture_ns": 250 * MS,
            "computing_ns": 300 * MS,
            "sleeping_ns": 350 * MS,
        }
        found = grown(spent(10, 0), spent(11, 100, **before), spent(12, 150, **now))

        assert (found.pageable, found.capture, found.computing, found.sleeping) == tuple(
            map(pytest.approx, (0.05, 0.1, 0.15, 0.2))
        )
        assert (found.usual_computing, found.usual_sleeping) == (pytest.approx(0.05), pytest.approx(0.05))

    def test_link_counts_whole(self) -> None:
        """How busy it is, not how much busier."""
        found = grown(spent(10, 0), spent(11, 100, link_ns=600 * MS), spent(12, 150, link_ns=1400 * MS))

        assert found.link == pytest.approx(0.8)

    @pytest.mark.parametrize(
        ("kernels", "part", "is_same"), [(1_860, 1.1, True), (1_920, 1.2, False), (1_560, 0.6, False)]
    )
    def test_kernels_of_a_step_are_compared_with_those_of_the_baseline(
        self, kernels: int, part: float, *, is_same: bool
    ) -> None:
        """12 in a step, of which a tenth more or fewer may be chance; then 13.2, 14.4 and 7.2."""
        found = grown(spent(10, 0), spent(11, 100, kernels=1_200), spent(12, 150, kernels=kernels))

        assert found.kernels == pytest.approx(part)
        assert found.is_same_work is is_same

    def test_work_is_not_known_to_be_the_same_without_launches(self) -> None:
        """They may not be probed."""
        found = grown(spent(10, 0), spent(11, 100), spent(12, 150))

        assert (found.kernels, found.is_same_work) == (None, False)

    def test_bytes_of_a_step_are_compared_with_those_of_the_baseline(self) -> None:
        """1,000 in a step, then 1,500."""
        found = grown(spent(10, 0), spent(11, 100, copied_bytes=100_000), spent(12, 150, copied_bytes=175_000))

        assert found.copied == pytest.approx(1.5)

    def test_steps_that_take_less_of_something_are_below_zero(self) -> None:
        found = grown(
            spent(10, 0),
            spent(11, 100, calls_ns={Effect.SYNC: 500 * MS}),
            spent(12, 200, calls_ns={Effect.SYNC: 600 * MS}),
        )

        assert found.calls == {Effect.SYNC: pytest.approx(-0.4)}


class TestLargerBatches:
    """Steps take twice as long, which is a slowness of one half, or 11 %."""

    @pytest.mark.parametrize(
        ("copied", "kernels", "slower", "explains"),
        [
            (1.51, 1.0, 0.5, True),  # half of what they take longer
            (1.49, 1.0, 0.5, False),
            (1.11, 1.0, 0.1, True),
            (1.09, 1.0, 0.1, False),  # may be chance
            (None, 1.0, 0.5, False),  # copies are not seen
            (2.0, 1.2, 0.5, False),  # other work
        ],
    )
    def test_more_data_explains_longer_steps(
        self, copied: float | None, kernels: float, slower: float, *, explains: bool
    ) -> None:
        assert Grown(copied=copied, kernels=kernels).explains(slower) is explains


class TestEffect:
    def test_it_is_what_has_grown_most(self) -> None:
        assert Grown({Effect.SYNC: 0.1, Effect.MEMCPY: 0.3, Effect.LAUNCH: -0.2}).effect is Effect.MEMCPY

    def test_without_calls_it_is_sync(self) -> None:
        assert Grown().effect is Effect.SYNC


class TestSpentBefore:
    """Read once in half a minute while nothing is wrong, and at an alarm."""

    def reads(self, *seconds: float) -> list[float]:
        """Seconds at which it is read."""
        before, found = SpentBefore(), []

        def read() -> Spending:
            found.append(second)
            return Spending()

        for second in seconds:
            before.quiet(a_state(second), read)
        return found

    def test_it_is_read_every_half_minute(self) -> None:
        assert self.reads(10, 11, 39, 40, 41, 70) == [10, 40, 70]

    def test_alarm_is_read_once(self) -> None:
        """Until it is quiet again."""
        before, reads = SpentBefore(), []

        def read() -> Spending:
            reads.append(True)
            return Spending()

        for second in (10, 11, 12):
            before.alarm(a_state(second), read)

        assert len(reads) == 1

    def test_growth_is_that_since_the_alarm_against_the_last_minute(self) -> None:
        """1 ms a step since the beginning, 2 ms in the last minute, 6 ms since the alarm: 4 ms in each of 50 steps."""
        before = SpentBefore()
        totals = {0: 0, 100: 100 * MS, 200: 300 * MS, 300: 500 * MS}
        for second, (steps, ns) in zip((10, 40, 70), list(totals.items())[1:], strict=True):
            before.quiet(a_state(second, steps=steps), lambda ns=ns: Spending(computing_ns=ns))
        before.alarm(a_state(80, steps=400), lambda: Spending(computing_ns=700 * MS))
        found = before.grown(spent(81, 450, computing_ns=1000 * MS))

        assert found.computing == pytest.approx(0.2)

    def test_too_few_steps_are_no_baseline(self) -> None:
        """Nine between the last reading and the alarm: the beginning is the baseline instead, with 1 ms a step."""
        before = SpentBefore()
        before.quiet(a_state(10, steps=100), lambda: Spending(computing_ns=10 * SECOND))
        before.alarm(a_state(11, steps=109), lambda: Spending(computing_ns=109 * MS))
        found = before.grown(spent(12, 159, computing_ns=259 * MS))

        assert found.computing == pytest.approx(0.1)

    @pytest.mark.parametrize(("steps", "is_measured"), [(403, False), (404, True)])
    def test_growth_is_measured_after_four_steps(self, steps: int, *, is_measured: bool) -> None:
        before = SpentBefore()
        before.alarm(a_state(80, steps=400), Spending)

        assert before.is_measured(a_state(81, steps=steps)) is is_measured

    def test_growth_is_not_measured_without_an_alarm(self) -> None:
        """Neither is what was measured before it was quiet again."""
        before = SpentBefore()
        before.alarm(a_state(80, steps=400), Spending)
        before.quiet(a_state(81, steps=500), Spending)

        assert not before.is_measured(a_state(82, steps=600))

    def test_without_an_alarm_nothing_has_grown(self) -> None:
        assert SpentBefore().grown(spent(12, 159, computing_ns=259 * MS)).computing == 0.0

    def test_restart_forgets_the_baseline(self) -> None:
        """A phase without captures: what was spent on them before it does not count."""
        before = SpentBefore()
        before.quiet(a_state(10, steps=100), lambda: Spending(capture_ns=0))
        before.restart()
        before.quiet(a_state(20, steps=200), lambda: Spending(capture_ns=SECOND))
        before.alarm(a_state(30, steps=300), lambda: Spending(capture_ns=SECOND))
        found = before.grown(spent(31, 350, capture_ns=SECOND + 250 * MS))

        assert found.capture == pytest.approx(0.25)


class TestSameStep:
    """The GPU is given what it was given before."""

    @pytest.mark.parametrize(
        ("kernels", "copied", "steps", "is_same"),
        [
            (1.0, 1.0, 100, True),
            (1.05, 0.95, 100, True),
            (1.3, 1.0, 100, False),
            (1.0, 1.3, 100, False),
            (1.3, 1.0, 4, True),
            (None, 1.0, 100, False),
            (1.0, None, 100, False),
        ],
    )
    def test_as_many_kernels_and_as_much_data_in_a_step(
        self, kernels: float | None, copied: float | None, steps: int, *, is_same: bool
    ) -> None:
        """One of four steps may be counted in part. What is not known proves nothing."""
        assert Grown(kernels=kernels, copied=copied).is_same_step(steps) is is_same
