"""More jobs than `--series.max-workloads`: those that have ended make room for those that run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.host.processes import Processes
from exporter.workloads.registry import WorkloadRegistry
from tests.support.direct_reads import DirectReads
from tests.support.discovering import Scene, copied, discovering
from tests.support.held_calls import HeldCalls, fresh_rank, held_calls

MOST = 3


class Jobs:
    """Processes that have made a call and run on until they are ended, and a registry with room for three workloads."""

    def __init__(self, scene: Scene, libraries: Path, stack: ExitStack) -> None:
        self._scene = scene
        self._libraries = libraries
        self._stack = stack
        self._calls: dict[str, HeldCalls] = {}
        self.registry = WorkloadRegistry(Processes(), DirectReads(Processes()), "gpu7", MOST)

    def start(self) -> str:
        """A job; its rank."""
        rank = fresh_rank()
        calls = self._stack.enter_context(held_calls("cudaEventRecord:1", rank=rank, libraries=self._libraries))
        self._calls[rank] = calls
        calls.make()
        return rank

    def end(self, rank: str) -> None:
        self._calls.pop(rank).end()

    def ranks(self) -> list[str]:
        """Ranks of the jobs that run, as they are exported after a tick."""
        self.registry.queue_liveness_checks()
        for number in self.registry.find_ended():
            self.registry.remove(number)
            self._scene.tables.forget({number}, self._scene.tables.read())
        self.registry.admit(self._scene.tables.read_processes())
        self.registry.update_identities({})
        return sorted(identity.rank for identity in self.registry.identities().values())


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """Libraries that no other process maps. A program that never ends keeps them probed; it makes no call."""
    folder = copied(tmp_path / "lib")
    with discovering() as scene, held_calls("cudaEventRecord:1", libraries=folder), ExitStack() as stack:
        scene.walk_all()
        yield Jobs(scene, folder, stack)


class TestOverflow:
    def test_jobs_that_run_have_their_ranks_although_others_have_ended(
        self, jobs: Jobs, caplog: pytest.LogCaptureFixture
    ) -> None:
        """That the series of three have ended early is logged once, and counted."""
        first = [jobs.start() for _ in range(MOST)]
        assert jobs.ranks() == sorted(first)
        for rank in first:
            jobs.end(rank)
        jobs.ranks()
        second = [jobs.start() for _ in range(MOST)]

        assert jobs.ranks() == sorted(second)
        assert sum(jobs.registry.refused.sums().values()) == MOST
        assert len([one for one in caplog.records if "limit reached: workloads" in one.getMessage()]) == 1

    def test_job_that_waits_gets_its_rank_when_another_ends(self, jobs: Jobs) -> None:
        """Before one that was started later."""
        first = [jobs.start() for _ in range(MOST)]
        jobs.ranks()
        waiting = jobs.start()
        assert jobs.ranks() == [*sorted(first), "other"]
        jobs.end(first[1])
        jobs.start()

        assert jobs.ranks() == [*sorted([first[0], first[2], waiting]), "other"]
