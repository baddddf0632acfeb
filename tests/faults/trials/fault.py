"""A fault or decoy from outside of a job: other programs and limits, as administrators, schedulers and neighbours bring them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.faults.trials.extra import Extra
from tests.faults.trials.job import TrialJob

Bring = Callable[[TrialJob, float], AbstractContextManager[object]]
"""The job, and by which part its steps should become longer: 0.5 for half as long again. Undone with the block."""


@dataclass(frozen=True)
class OutsideFault:
    """One fault or decoy.

    causes: names of Cause that are right; none of a decoy. culprits: with which the name of the right culprit begins; none where
    there is none to name. extra: what the job must do to feel it; None if any job feels it. needs: as deploy/packages.sh has it.
    is_of_one_cpu: the job has one CPU for itself, and the machine has others; is_of_all_cpus: it has them all.
    """

    name: str
    says: str
    causes: frozenset[str]
    bring: Bring
    culprits: tuple[str, ...] = ()
    extra: Extra | None = None
    needs: tuple[str, ...] = ()
    is_of_one_cpu: bool = False
    is_of_all_cpus: bool = False

    @property
    def is_decoy(self) -> bool:
        """Whether it should make no step longer."""
        return not self.causes
