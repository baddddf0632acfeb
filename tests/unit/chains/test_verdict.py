"""verdict: why a job is slower, from shares of the time that was lost beyond the level before."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.causes import CHAIN_CAUSES, Cause
from exporter.chains import verdict
from exporter.chains.chain import Effect, Severity
from exporter.chains.gpu import UNSEEN, DeviceSide, Neighbour
from exporter.chains.spending import Grown
from exporter.chains.verdict import Verdict
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, found


def cause_of(**changes: Any) -> Cause | None:
    """The cause of the verdict; None while it is too early for one."""
    reason = verdict.judge(found(**changes))
    return reason.cause if reason else None


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
            {"wall_ns": 1_200 * MS},  # less than a second and a quarter
            {"wall_ns": 2_400 * MS, "steps": 15},  # less than two and a half seconds, in few steps
            {"steps": 3},  # less than four
            {"slower": 0.09},  # less than a tenth
            {"slower": None},  # no rhythm
            {"calls": 1.2},  # another phase
            {"slower": 0.0},
        ],
    )
    def test_host_is_not_ruled_out_before(self, changes: dict[str, Any]) -> None:
        assert cause_of(**changes) is None

    def test_own_wait_is_the_reason_without_a_rhythm_of_steps(self) -> None:
        """A fifth of the time after three seconds: it is measured, whatever steps do."""
        reason = verdict.judge(found(wall_ns=3 * SECOND, slower=None, own_wait=0.2, lost={Cause.LOCK: 0.05}))

        assert reason is not None
        assert (reason.cause, reason.effect, reason.contribution) == (Cause.OWN_WAIT, Effect.GAP, 0.8)
        assert reason.shares == (("own_wait", 0.8), ("lock", 0.2))

    @pytest.mark.parametrize(
        "changes",
        [
            {"wall_ns": 2_900 * MS},
            {"own_wait": 0.09},  # less than a tenth of the time
            {"lost": {Cause.LOCK: 0.1, Cause.NETWORK: 0.11}},  # and less than half of what was lost
            {"has_own_waits": True},  # as a server has for its next request
        ],
    )
    def test_own_wait_is_not_the_reason_without_a_rhythm_where(self, changes: dict[str, Any]) -> None:
        known: dict[str, Any] = {"slower": None, "own_wait": 0.2}

        assert cause_of(**(known | changes)) is None

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

    @pytest.mark.parametrize(
        ("grown", "steps"),
        [(Grown(computing=0.4), 15), (Grown(computing=0.2), 200), (Grown({Effect.SYNC: 0.4}), 200)],
    )
    def test_none_is_reported_before_three_seconds(self, grown: Grown, steps: int) -> None:
        """In few steps, with less than half explained, or inferred from calls that wait."""
        changes = {"steps": steps, "wall_ns": 2_900 * MS}

        assert self._verdict(grown, **changes) is None
        assert self._verdict(grown, **changes | {"wall_ns": 10_000 * MS}) is not None

    def test_half_of_it_in_sixteen_steps_is_reported_after_a_second_and_a_quarter(self) -> None:
        """What the job does between its calls is measured in every step."""
        changes = {"steps": 16, "wall_ns": 1_250 * MS}

        assert verdict.judge(found(**changes)) is not None
        assert self._verdict(Grown(computing=0.25), **changes) is not None

    def test_state_of_the_gpu_is_not_known_after_a_second(self) -> None:
        """It is sampled once a second."""
        side = DeviceSide(0.9, 0.0, "power")

        assert self._verdict(Grown({Effect.SYNC: 0.4}), side, wall_ns=2_400 * MS) is None

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


class TestAddedWork:
    """Steps make other calls than before."""

    @pytest.mark.parametrize(("computing", "is_own"), [(0.34, False), (0.36, True)])
    def test_what_was_added_is_what_calls_do_not_explain(self, computing: float, *, is_own: bool) -> None:
        """Twice as many calls; usual steps compute for a tenth of the time. A quarter of the time has to be explained."""
        reason = verdict.of_added_work(found(calls=2.0), Grown(computing=computing, usual_computing=0.1))

        assert (reason is not None and reason.cause is Cause.OWN_CODE) is is_own

    @pytest.mark.parametrize("calls", [2.0, 9.0])
    @pytest.mark.parametrize(("computing", "is_own"), [(0.24, False), (0.26, True)])
    def test_calls_beside_the_same_kernels_explain_no_computing(
        self, calls: float, computing: float, *, is_own: bool
    ) -> None:
        """A compiler captures what nothing launches: the GPU is given the same work, however many calls are made."""
        added = Grown(computing=computing, usual_computing=0.1, kernels=1.02)
        reason = verdict.of_added_work(found(calls=calls), added)

        assert (reason is not None and reason.cause is Cause.OWN_CODE) is is_own

    def test_fewer_calls_for_the_same_kernels_are_another_phase(self) -> None:
        """Nothing was added."""
        assert verdict.of_added_work(found(calls=0.5), Grown(computing=0.5, kernels=1.0)) is None


class TestContribution:
    def test_contribution_of_another_cause_is_among_the_shares(self) -> None:
        reason = Verdict(Cause.LOCK, Effect.GAP, 0.6, (("lock", 0.6), ("block_io", 0.3)))

        assert verdict.contribution_of(Cause.LOCK, reason) == 0.6
        assert verdict.contribution_of(Cause.BLOCK_IO, reason) == 0.3
        assert verdict.contribution_of(Cause.NETWORK, reason) == 0.0
