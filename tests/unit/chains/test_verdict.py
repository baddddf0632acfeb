"""verdict: why a job is slower, from shares of the time that was lost beyond the level before."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from exporter.chains import verdict
from exporter.chains.chain import Effect, Severity
from exporter.chains.gpu import UNSEEN, DeviceSide, Neighbour
from exporter.chains.regime import Regime
from exporter.chains.span import Collective, Span
from exporter.chains.spending import Grown
from exporter.chains.verdict import Findings, Verdict
from exporter.chains.window import Level
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_regime, a_span, a_state

DISK = (Cause.BLOCK_IO, "")


def found(**changes: Any) -> Findings:
    """Steps take twice as long for four seconds; nothing explains it."""
    known: dict[str, Any] = {
        "wall_ns": 4 * SECOND,
        "steps": 200,
        "slower": 0.5,
        "pace": 0.5,
        "lost": {},
        "own_wait": 0.0,
        "other": 0.0,
        "undecided": 0.0,
        "exposed": 0.0,
        "calls": 1.0,
        "peers": {},
        "lateness": 0.0,
    }
    return Findings(**(known | changes))


def cause_of(**changes: Any) -> Cause | None:
    """The cause of the verdict; None while it is too early for one."""
    reason = verdict.judge(found(**changes))
    return reason.cause if reason else None


class TestFind:
    """What was lost in a span of two seconds beyond what was lost before."""

    def test_loss_is_by_cause_as_a_share_of_the_time(self) -> None:
        lost_ns = {DISK: 400 * MS, (Cause.OWN_WAIT, ""): 200 * MS, (Cause.OTHER, ""): 100 * MS}
        one = verdict.find(a_span(2, lost_ns=lost_ns, undecided_ns=60 * MS, exposed_ns=20 * MS), Regime(), {})

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
        one = verdict.find(a_span(2, lost_ns=lost_ns), Regime(), {})

        assert {cause.value: share for cause, share in one.lost.items()} == pytest.approx(expected)

    def test_without_a_rhythm_the_total_is_what_was_lost(self) -> None:
        one = verdict.find(a_span(2, lost_ns={DISK: 400 * MS}), Regime(), {})

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
        one = verdict.find(Span(began, now), regime, {})

        assert one.slower == pytest.approx(0.5)
        assert one.lost == {Cause.BLOCK_IO: pytest.approx(0.45)}
        assert one.calls == 1.0

    def test_level_before_is_subtracted_in_its_place(self) -> None:
        """A fifth slower before, with a tenth lost to the disk; 36 % slower than at the beginning now: a fifth on top."""
        began = a_state(100, step_began_ns=100 * SECOND)
        now = a_state(102, late_ns=0.72 * SECOND, steps=128, step_began_ns=102 * SECOND, lost_ns={DISK: 500 * MS})
        before = Level(late=0.2, lost={Cause.BLOCK_IO: 0.1})
        one = verdict.find(Span(began, now), a_regime(*[10.0] * 10), {}, before)

        assert one.slower == pytest.approx(0.2)
        assert one.lost == {Cause.BLOCK_IO: pytest.approx(0.25 - 0.1 * 0.8)}

    def test_chronic_job_has_no_baseline(self) -> None:
        one = verdict.find(a_span(2, lost_ns={DISK: 400 * MS}), a_regime(*[10.0] * 10, lost=0.2), {}, is_chronic=True)

        assert (one.slower, one.lost) == (None, {Cause.BLOCK_IO: 0.2})

    def test_stopped_thread_is_paused_before_it_is_accounted(self) -> None:
        assert verdict.find(a_span(2, stopped_ns=SECOND), Regime(), {}).lost == {Cause.PAUSED: 0.5}

    def test_waits_for_ranks_are_shares(self) -> None:
        span = a_span(2, collectives={77: Collective(0, 9, 500 * MS)})
        one = verdict.find(span, Regime(), {"3": 800 * MS})

        assert (one.peers, one.lateness) == ({"3": 0.4}, 0.25)


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
        one = verdict.find(Span(a_state(100, step_began_ns=100 * SECOND), now), a_regime(*[10.0] * 10), {})

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


class TestJudge:
    """Half of what was lost is to be explained: here a quarter of the time."""

    def test_cause_that_explains_half_is_the_reason_at_once(self) -> None:
        reason = verdict.judge(found(wall_ns=SECOND, lost={Cause.BLOCK_IO: 0.26, Cause.LOCK: 0.1}))

        assert reason is not None
        assert (reason.cause, reason.effect, reason.contribution) == (Cause.BLOCK_IO, Effect.GAP, 0.52)
        assert reason.shares == (("block_io", 0.52), ("lock", 0.2))

    def test_larger_of_two_that_explain_seven_tenths_is(self) -> None:
        assert cause_of(wall_ns=SECOND, lost={Cause.BLOCK_IO: 0.2, Cause.LOCK: 0.15}) is Cause.BLOCK_IO

    def test_many_small_ones_are_waited_for(self) -> None:
        """Three explain half together: after three seconds."""
        lost = {Cause.BLOCK_IO: 0.1, Cause.LOCK: 0.09, Cause.NETWORK: 0.08}

        assert cause_of(lost=lost, wall_ns=2_900 * MS) is None
        assert cause_of(lost=lost, wall_ns=3_000 * MS) is Cause.BLOCK_IO

    def test_undecided_waits_for_cpus_are_waited_for(self) -> None:
        """Two seconds, and ten before the host is ruled out."""
        assert cause_of(undecided=0.2, wall_ns=9 * SECOND) is None
        assert cause_of(undecided=0.2, wall_ns=10 * SECOND) is verdict.UNDETERMINED

    def test_host_is_ruled_out_where_it_explains_less_than_half(self) -> None:
        reason = verdict.judge(found(lost={Cause.BLOCK_IO: 0.1}, own_wait=0.05))

        assert reason is not None
        assert (reason.cause, reason.contribution) == (verdict.UNDETERMINED, 0.8)
        assert reason.shares == (("block_io", 0.2), ("own_wait", 0.1))

    @pytest.mark.parametrize(
        "changes",
        [
            {"wall_ns": 2_400 * MS},  # less than two and a half seconds
            {"steps": 3},  # less than four
            {"slower": 0.09},  # less than a tenth
            {"slower": None},  # no rhythm
            {"calls": 1.2},  # another phase
            {"slower": 0.0},
        ],
    )
    def test_host_is_not_ruled_out_before(self, changes: dict[str, Any]) -> None:
        assert cause_of(**changes) is None

    def test_loss_in_synchronising_calls_is_of_effect_sync(self) -> None:
        reason = verdict.judge(found(lost={Cause.CPU_CONTENTION: 0.4}, exposed=0.3))

        assert reason is not None
        assert reason.effect is Effect.SYNC

    def test_rank_that_is_waited_for_is_named(self) -> None:
        """Where the host explains less than half."""
        reason = verdict.judge(found(peers={"1": 0.1, "3": 0.4}))

        assert reason is not None
        assert (reason.cause, reason.peer, reason.contribution) == (Cause.PEER_RANK, "3", 0.8)

    def test_rank_with_a_cause_of_its_own_waits_for_none(self) -> None:
        assert cause_of(lost={Cause.BLOCK_IO: 0.3}, peers={"3": 0.4}) is Cause.BLOCK_IO

    def test_late_rank_is_slow(self) -> None:
        assert cause_of(lateness=0.4) is Cause.SLOW_RANK


UNEXPLAINED = Verdict(verdict.UNDETERMINED, Effect.SYNC, 1.0, (("lock", 0.1),))


class TestOfTheJob:
    """The host is ruled out; half of the time is to be explained."""

    @staticmethod
    def _verdict(grown: Grown, side: DeviceSide = UNSEEN, **changes: Any) -> Verdict | None:
        return verdict.of_the_job(UNEXPLAINED, found(**changes), grown, side)

    def test_computing_between_calls_is_own_code(self) -> None:
        reason = self._verdict(Grown({Effect.SYNC: 0.1}, computing=0.3))

        assert reason is not None
        assert (reason.cause, reason.effect, reason.contribution) == (Cause.OWN_CODE, Effect.GAP, 0.6)
        assert reason.shares == (("own_code", 0.6), ("lock", 0.1))

    def test_sleeping_between_calls_is_own_wait(self) -> None:
        reason = self._verdict(Grown({Effect.SYNC: 0.1}, computing=0.1), own_wait=0.3)

        assert reason is not None
        assert (reason.cause, reason.effect, reason.contribution) == (Cause.OWN_WAIT, Effect.GAP, 0.6)

    def test_sleep_of_one_of_several_threads_is_own_wait(self) -> None:
        """Another one gave the GPU work in the meantime, so that the accounting shows no loss."""
        reason = self._verdict(Grown({Effect.SYNC: 0.1}, sleeping=0.3))

        assert reason is not None
        assert (reason.cause, reason.contribution) == (Cause.OWN_WAIT, 0.6)

    def test_longer_calls_are_the_gpu(self) -> None:
        """The effect is the call that has grown."""
        reason = self._verdict(Grown({Effect.SYNC: 0.1, Effect.COLLECTIVE: 0.35}, computing=0.1))

        assert reason is not None
        assert (reason.cause, reason.effect, reason.contribution) == (Cause.GPU, Effect.COLLECTIVE, 1.0)

    @pytest.mark.parametrize("grown", [Grown(computing=0.4), Grown({Effect.SYNC: 0.4})])
    def test_neither_is_reported_before_three_seconds(self, grown: Grown) -> None:
        assert self._verdict(grown, wall_ns=2_900 * MS) is None
        assert self._verdict(grown, wall_ns=3_000 * MS) is not None

    @pytest.mark.parametrize(("grown", "least_steps"), [(Grown(computing=0.4), 4), (Grown({Effect.SYNC: 0.4}), 8)])
    def test_what_is_measured_takes_fewer_steps_than_what_is_inferred(self, grown: Grown, least_steps: int) -> None:
        """The job's own code four, its GPU eight: steps may take seconds."""
        found_after = [
            steps for steps in (3, 4, 7, 8) if verdict.judge(found(steps=steps)) and self._verdict(grown, steps=steps)
        ]

        assert found_after[0] == least_steps

    def test_gpu_that_throttles_is_the_reason_of_longer_calls(self) -> None:
        reason = self._verdict(Grown({Effect.SYNC: 0.4}), DeviceSide(0.9, 0.0, "power"), wall_ns=2_600 * MS)

        assert reason is not None
        assert (reason.cause, reason.shares[0]) == (Cause.GPU_THROTTLED, ("gpu_throttled", 1.0))
        assert "held down by power" in reason.detail

    def test_neighbour_on_the_gpu_is_the_culprit(self) -> None:
        reason = self._verdict(Grown({Effect.SYNC: 0.4}), DeviceSide(neighbours=(Neighbour("serve", 900.0, 0.0),)))

        assert reason is not None
        assert (reason.cause, reason.culprits) == (Cause.GPU_CONTENTION, (("serve", 1.0),))

    def test_throttling_explains_no_allocations(self) -> None:
        reason = self._verdict(Grown({Effect.GRAPH: 0.4}), DeviceSide(0.9, 0.0, "power"))

        assert reason is not None
        assert (reason.cause, reason.effect) == (Cause.GPU, Effect.GRAPH)

    def test_own_calls_come_first(self) -> None:
        reason = self._verdict(Grown({Effect.ALLOC: 0.3}, computing=0.4))

        assert reason is not None
        assert (reason.cause, reason.shares) == (Cause.ALLOCATION_CHURN, (("allocation_churn", 0.6), ("lock", 0.1)))


class TestOfOwnDoing:
    """Captures, allocations and copies, where they are half of it."""

    @pytest.mark.parametrize(
        ("grown", "cause", "effect"),
        [
            (Grown(capture=0.25), Cause.GRAPH_RECAPTURE, Effect.GRAPH),
            (Grown({Effect.ALLOC: 0.25}), Cause.ALLOCATION_CHURN, Effect.ALLOC),
            (Grown({Effect.MEMCPY: 0.4}, pageable=0.25), Cause.PAGEABLE_COPY, Effect.MEMCPY),
            (Grown({Effect.MEMCPY: 0.4}, link=0.7), Cause.PCIE, Effect.MEMCPY),
            (Grown({Effect.SYNC: 0.4}, link=0.7), Cause.PCIE, Effect.SYNC),
        ],
    )
    def test_causes(self, grown: Grown, cause: Cause, effect: Effect) -> None:
        reason = verdict.of_own_doing(found(), grown)

        assert reason is not None
        assert (reason.cause, reason.effect) == (cause, effect)

    @pytest.mark.parametrize(
        "grown",
        [
            Grown(capture=0.24),
            Grown({Effect.MEMCPY: 0.4}, pageable=0.24),
            Grown({Effect.MEMCPY: 0.4}, link=0.69),
            Grown({Effect.COLLECTIVE: 0.4}, link=0.9),
        ],
    )
    def test_less_is_none(self, grown: Grown) -> None:
        """A full link delays copies, and what waits for them."""
        assert verdict.of_own_doing(found(), grown) is None


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

        assert verdict.part_of(cause, one) == pytest.approx(part)

    def test_contribution_of_another_cause_is_among_the_shares(self) -> None:
        reason = Verdict(Cause.LOCK, Effect.GAP, 0.6, (("lock", 0.6), ("block_io", 0.3)))

        assert verdict.contribution_of(Cause.LOCK, reason) == 0.6
        assert verdict.contribution_of(Cause.BLOCK_IO, reason) == 0.3
        assert verdict.contribution_of(Cause.NETWORK, reason) == 0.0


class TestPhase:
    @pytest.mark.parametrize(
        ("calls", "steps", "is_another"),
        [(1.09, 200, False), (1.12, 200, True), (0.88, 200, True), (1.5, 2, False), (1.0, 0, False)],
    )
    def test_a_tenth_of_the_calls_and_one_step_are_allowed(self, calls: float, steps: int, *, is_another: bool) -> None:
        """A span begins and ends within a step."""
        assert verdict.is_another_phase(found(calls=calls, steps=steps)) is is_another

    @pytest.mark.parametrize(
        ("part", "is_other"), [({"own_wait": 0.3}, False), ({"lost": {Cause.LOCK: 0.3}}, False), ({}, True)]
    )
    def test_phase_with_an_explanation_is_none(self, part: dict[str, Any], is_other: bool) -> None:
        """Steps make twice as many calls; half of the time is to be explained."""
        assert verdict.is_other_work(found(calls=2.0, **part)) is is_other

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
        assert verdict.is_certain_phase(found(wall_ns=500 * MS, **changes)) is is_certain
        assert verdict.is_certain_phase(found(wall_ns=2_500 * MS, **changes))

    @pytest.mark.parametrize(("computing", "is_own"), [(0.34, False), (0.36, True)])
    def test_what_was_added_is_what_calls_do_not_explain(self, computing: float, *, is_own: bool) -> None:
        """Twice as many calls; usual steps compute for a tenth of the time. A quarter of the time has to be explained."""
        reason = verdict.of_added_work(found(calls=2.0), Grown(computing=computing, usual_computing=0.1))

        assert (reason is not None and reason.cause is Cause.OWN_CODE) is is_own

    @pytest.mark.parametrize(
        ("changes", "is_evident"),
        [({}, True), ({"wall_ns": 2_400 * MS}, False), ({"steps": 3}, False), ({"slower": 0.09}, False)],
    )
    def test_own_work_is_evident_after_a_while(self, changes: dict[str, Any], *, is_evident: bool) -> None:
        assert verdict.is_evident(found(**changes)) is is_evident


class TestSeverity:
    @pytest.mark.parametrize(
        ("lost_share", "severity"),
        [
            (0.01, Severity.LOW),
            (0.05, Severity.LOW),
            (0.10, Severity.MEDIUM),
            (0.25, Severity.HIGH),
            (0.50, Severity.CRITICAL),
        ],
    )
    def test_it_is_that_of_the_lost_share(self, lost_share: float, severity: Severity) -> None:
        assert verdict.severity_of(Cause.LOCK, lost_share) is severity

    @pytest.mark.parametrize(
        ("cause", "severity"),
        [
            (Cause.OWN_CODE, Severity.MEDIUM),
            (Cause.OWN_WAIT, Severity.MEDIUM),
            (Cause.GPU, Severity.MEDIUM),
            (Cause.PEER_RANK, Severity.MEDIUM),
            (Cause.GPU_THROTTLED, Severity.HIGH),
            (Cause.GPU_CONTENTION, Severity.HIGH),
            (Cause.STALLED, Severity.HIGH),
            (Cause.PAGEABLE_COPY, Severity.CRITICAL),
        ],
    )
    def test_some_causes_are_only_so_bad(self, cause: Cause, severity: Severity) -> None:
        assert verdict.severity_of(cause, 1.0) is severity

    @pytest.mark.parametrize(
        ("cause", "severity"),
        [
            (Cause.NCCL_HANG, Severity.CRITICAL),
            (Cause.CUDA_OOM, Severity.CRITICAL),
            (Cause.CRASH, Severity.CRITICAL),
            (Cause.OOM_KILLED, Severity.CRITICAL),
            (Cause.MEMORY_LEAK, Severity.MEDIUM),
            (Cause.GRAPH_ABANDONED, Severity.MEDIUM),
            (Cause.COLD_START, Severity.LOW),
            (Cause.CHANGED, Severity.LOW),
        ],
    )
    def test_some_causes_are_always_so_bad(self, cause: Cause, severity: Severity) -> None:
        assert verdict.severity_of(cause, 0.0) is severity


class TestPossible:
    def test_every_cause_of_a_chain_is_possible(self) -> None:
        """With the effect that it has as a rule."""
        effects = {cause: effect for cause, effect, _ in verdict.possible()}

        assert effects.keys() == set(CHAIN_CAUSES)
        assert (effects[Cause.LOCK], effects[Cause.OWN_CODE], effects[Cause.STALLED]) == (
            Effect.GAP,
            Effect.GAP,
            Effect.STEP,
        )

    def test_severities_are_those_that_it_may_have(self) -> None:
        severities = {
            cause: [severity for one, _, severity in verdict.possible() if one is cause]
            for cause in (Cause.LOCK, Cause.GPU, Cause.CRASH)
        }

        assert severities[Cause.LOCK] == [Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL]
        assert severities[Cause.GPU] == [Severity.LOW, Severity.MEDIUM]
        assert severities[Cause.CRASH] == [Severity.CRITICAL]
