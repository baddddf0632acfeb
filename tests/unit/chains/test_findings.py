"""findings: what was lost beyond the level before, and whether the steps are the same."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.causes import Cause
from exporter.chains import findings, verdict
from exporter.chains.regime import Regime
from exporter.chains.span import Collective, Span
from exporter.chains.window import Level
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_regime, a_span, a_state, found

DISK = (Cause.BLOCK_IO, "")


class TestFind:
    """What was lost in a span of two seconds beyond what was lost before."""

    def test_loss_is_by_cause_as_a_share_of_the_time(self) -> None:
        lost_ns = {DISK: 400 * MS, (Cause.OWN_WAIT, ""): 200 * MS, (Cause.OTHER, ""): 100 * MS}
        one = findings.find(a_span(2, lost_ns=lost_ns, undecided_ns=60 * MS, exposed_ns=20 * MS), Regime(), {})

        assert one.lost == {Cause.BLOCK_IO: 0.2}
        assert (one.own_wait, one.other, one.undecided, one.exposed) == (0.1, 0.05, 0.03, 0.01)
        assert one.lost_of_all == pytest.approx(0.38)

    @pytest.mark.parametrize(
        ("lost_ms", "expected"),
        [
            ({"lock": 400, "memory_reclaim": 130, "block_io": 80}, {"memory_reclaim": 0.265, "block_io": 0.04}),
            (
                {"lock": 400, "memory_reclaim": 130, "block_io": 60},
                {"lock": 0.2, "memory_reclaim": 0.065, "block_io": 0.03},
            ),
            ({"cpu_oversubscribed": 400, "cpu_contention": 200}, {"cpu_contention": 0.3}),
            ({"cpu_oversubscribed": 400, "cpu_contention": 190}, {"cpu_oversubscribed": 0.2, "cpu_contention": 0.095}),
            ({"lock": 400}, {"lock": 0.2}),
        ],
    )
    def test_waits_of_threads_for_each_other_have_the_cause_that_makes_them_longer(
        self, lost_ms: dict[str, int], expected: dict[str, float]
    ) -> None:
        """From half of them on. In a span of two seconds."""
        lost_ns = {(Cause(name), ""): ms * MS for name, ms in lost_ms.items()}
        one = findings.find(a_span(2, lost_ns=lost_ns), Regime(), {})

        assert {cause.value: share for cause, share in one.lost.items()} == pytest.approx(expected)

    def test_without_a_rhythm_the_total_is_what_was_lost(self) -> None:
        one = findings.find(a_span(2, lost_ns={DISK: 400 * MS}), Regime(), {})

        assert (one.slower, one.pace, one.total) == (None, 1.0, 0.2)

    def test_regime_is_subtracted_step_by_step(self) -> None:
        """A tenth of the time is usual. Half as many steps lose half of it: 0.5 - 0.05."""
        regime = a_regime(*[10.0] * 10, lost=0.1)
        began = a_state(100, step_began_ns=100 * SECOND)
        now = a_state(
            102,
            late_ns=SECOND,
            steps=100,
            calls=5000,
            step_began_ns=102 * SECOND,
            lost_ns={DISK: 1000 * MS},
        )
        one = findings.find(Span(began, now), regime, {})

        assert one.slower == pytest.approx(0.5)
        assert one.lost == {Cause.BLOCK_IO: pytest.approx(0.45)}
        assert one.calls == 1.0

    def test_level_before_is_subtracted_in_its_place(self) -> None:
        """A fifth slower before, with a tenth lost to the disk; 36 % slower than at the beginning now: a fifth on top."""
        began = a_state(100, step_began_ns=100 * SECOND)
        now = a_state(102, late_ns=0.72 * SECOND, steps=128, step_began_ns=102 * SECOND, lost_ns={DISK: 500 * MS})
        before = Level(late=0.2, lost={Cause.BLOCK_IO: 0.1})
        one = findings.find(Span(began, now), a_regime(*[10.0] * 10), {}, before)

        assert one.slower == pytest.approx(0.2)
        assert one.lost == {Cause.BLOCK_IO: pytest.approx(0.25 - 0.1 * 0.8)}

    def test_chronic_job_has_no_baseline(self) -> None:
        one = findings.find(a_span(2, lost_ns={DISK: 400 * MS}), a_regime(*[10.0] * 10, lost=0.2), {}, is_chronic=True)

        assert (one.slower, one.lost) == (None, {Cause.BLOCK_IO: 0.2})

    def test_stopped_thread_is_paused_before_it_is_accounted(self) -> None:
        assert findings.find(a_span(2, stopped_ns=SECOND), Regime(), {}).lost == {Cause.PAUSED: 0.5}

    def test_waits_for_ranks_are_shares(self) -> None:
        span = a_span(2, collectives={77: Collective(0, 9, 500 * MS)})
        one = findings.find(span, Regime(), {"3": 800 * MS})

        assert (one.peers, one.lateness) == ({"3": 0.4}, 0.25)

    def test_rank_that_was_waited_for_before_is_late_beyond_that(self) -> None:
        """Ranks that come late by turns: a tenth of the time, in as many steps."""
        span = a_span(2, collectives={77: Collective(0, 9, 500 * MS)})

        assert findings.find(span, Regime(), {}, Level(lag=0.1)).lateness == pytest.approx(0.15)
        assert findings.find(span, Regime(), {}, Level(lag=0.3)).lateness == 0.0


class TestBalanced:
    """In steady state no more can be lost than steps take longer."""

    def test_causes_explain_no_more_than_the_slowdown(self) -> None:
        """0.24 and 0.06 were charged where steps took 0.2 longer."""
        one = found(slower=0.2, lost={Cause.CPU_CONTENTION: 0.24, Cause.BLOCK_IO: 0.06}).balanced()

        assert one.lost == {Cause.CPU_CONTENTION: pytest.approx(0.16), Cause.BLOCK_IO: pytest.approx(0.04)}
        assert one.lost_of_all == pytest.approx(0.2)

    def test_found_is_balanced(self) -> None:
        """A tenth slower, and a fifth charged."""
        now = a_state(102, late_ns=0.2 * SECOND, steps=180, step_began_ns=102 * SECOND, lost_ns={DISK: 400 * MS})
        one = findings.find(Span(a_state(100, step_began_ns=100 * SECOND), now), a_regime(*[10.0] * 10), {})

        assert one.lost == {Cause.BLOCK_IO: pytest.approx(0.1)}

    @pytest.mark.parametrize("slower", [0.2, None])
    def test_less_than_the_slowdown_is_not_changed(self, slower: float | None) -> None:
        """And without a rhythm lost time is all that is known."""
        one = found(slower=slower, lost={Cause.CPU_CONTENTION: 0.12})

        assert one.balanced() is one

    def test_contributions_add_up_to_the_whole(self) -> None:
        reason = verdict.judge(found(slower=0.2, lost={Cause.CPU_CONTENTION: 0.24, Cause.BLOCK_IO: 0.06}).balanced())

        assert reason is not None
        assert (reason.cause, reason.contribution) == (Cause.CPU_CONTENTION, pytest.approx(0.8))
        assert reason.shares == (("cpu_contention", pytest.approx(0.8)), ("block_io", pytest.approx(0.2)))

    def test_much_more_than_the_slowdown_lowers_the_contribution(self) -> None:
        """Three times as much was charged; half of that would be within the margin."""
        reason = verdict.judge(found(slower=0.1, lost={Cause.CPU_CONTENTION: 0.3}).balanced())

        assert reason is not None
        assert (reason.cause, reason.contribution) == (Cause.CPU_CONTENTION, pytest.approx(0.5))

    def test_few_steps_say_nothing_of_the_balance(self) -> None:
        """An open step may hide one step of slowness."""
        reason = verdict.judge(found(slower=0.1, steps=2, lost={Cause.CPU_CONTENTION: 0.3}).balanced())

        assert reason is not None
        assert reason.contribution == pytest.approx(1.0)


class TestPartOf:
    """The share of the time that a chain's cause takes now."""

    @pytest.mark.parametrize(
        ("cause", "part"),
        [
            (Cause.BLOCK_IO, 0.2),
            (Cause.CPU_CONTENTION, 0.08),  # undecided waits may belong to it
            (Cause.PEER_RANK, 0.3),
            (Cause.SLOW_RANK, 0.04),
            (Cause.OWN_WAIT, 0.1),
            (Cause.GPU, 0.2),  # of 0.5 what neither the host nor sleeps explain
            (Cause.OWN_CODE, 0.2),
        ],
    )
    def test_part(self, cause: Cause, part: float) -> None:
        one = found(lost={Cause.BLOCK_IO: 0.2}, undecided=0.08, peers={"1": 0.3}, lateness=0.04, own_wait=0.1)

        assert findings.part_of(cause, one) == pytest.approx(part)


class TestPhase:
    @pytest.mark.parametrize(
        ("calls", "steps", "is_another"),
        [(1.09, 200, False), (1.12, 200, True), (0.88, 200, True), (1.5, 2, False), (1.0, 0, False)],
    )
    def test_a_tenth_of_the_calls_and_one_step_are_allowed(self, calls: float, steps: int, *, is_another: bool) -> None:
        """A span begins and ends within a step."""
        assert findings.is_another_phase(found(calls=calls, steps=steps)) is is_another

    @pytest.mark.parametrize(
        ("part", "is_other"), [({"own_wait": 0.3}, False), ({"lost": {Cause.LOCK: 0.3}}, False), ({}, True)]
    )
    def test_phase_with_an_explanation_is_none(self, part: dict[str, Any], is_other: bool) -> None:
        """Steps make twice as many calls; half of the time is to be explained."""
        assert findings.is_other_work(found(calls=2.0, **part)) is is_other

    @pytest.mark.parametrize(
        ("changes", "is_certain"),
        [
            ({"calls": 0.5}, True),
            ({"calls": 0.5, "calls_spread": 0.2}, False),  # the calls of a server's steps depend on its requests
            ({"calls": 2.0}, False),  # the same steps, with something added
            ({"calls": 2.0, "is_resized": True}, True),
            ({"calls": 3.5}, True),
        ],
    )
    def test_phase_that_may_be_none_takes_two_and_a_half_seconds(
        self, changes: dict[str, Any], *, is_certain: bool
    ) -> None:
        """Others are certain at once."""
        assert findings.is_certain_phase(found(wall_ns=500 * MS, **changes)) is is_certain
        assert findings.is_certain_phase(found(wall_ns=2_500 * MS, **changes))

    @pytest.mark.parametrize(
        ("changes", "is_evident"),
        [
            ({}, True),
            ({"wall_ns": 1_250 * MS, "steps": 16}, True),
            ({"wall_ns": 1_200 * MS}, False),
            ({"wall_ns": 2_400 * MS, "steps": 15}, False),
            ({"steps": 3}, False),
            ({"slower": 0.09}, False),
        ],
    )
    def test_own_work_is_evident_after_a_while(self, changes: dict[str, Any], *, is_evident: bool) -> None:
        assert findings.is_evident(found(**changes)) is is_evident
