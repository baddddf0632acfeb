"""gpustall_standin.job: the phases of a live demo."""

from __future__ import annotations

import pytest

from gpustall_standin.job import NEIGHBOUR, Phases
from gpustall_standin.scenarios import PLANS, JobPlan, Neighbours

EVERY_PLAN = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)


class TestPhases:
    """In the shortest demo, of 22 seconds."""

    @EVERY_PLAN
    def test_a_baseline_can_be_learnt_before_the_fault(self, plan: JobPlan) -> None:
        """Eight seconds; not for a job that starts with its fault."""
        phases = Phases.of(plan, 22.0)

        assert phases.before >= 7.9 or plan.starts_faulty
        assert phases.fault >= 5.0
        assert sum(phases) == pytest.approx(22.0)

    @EVERY_PLAN
    def test_a_chain_can_resolve_after_the_fault(self, plan: JobPlan) -> None:
        """Six seconds; not for a job that stays faulty."""
        assert Phases.of(plan, 22.0).after >= 6.0 or plan.stays_faulty


class TestPlan:
    """One entry of PLANS."""

    @EVERY_PLAN
    def test_something_disturbs_the_job(self, plan: JobPlan) -> None:
        """A fault of its own, or other programs."""
        assert plan.fault or plan.neighbours is not Neighbours.NONE


class TestNeighbour:
    """The program that disturbs a job."""

    def test_the_kernel_keeps_its_whole_name(self) -> None:
        assert len(NEIGHBOUR) <= 15
