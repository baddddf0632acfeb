"""engine: several processes, and conditions besides slow steps."""

from __future__ import annotations

import signal
from itertools import pairwise

from exporter.accounting.culprits import NO_CULPRIT
from exporter.accounting.progress import Standing
from exporter.causes import Cause
from exporter.chains.chain import Change, End, Severity
from exporter.chains.exit_reason import Ending
from exporter.chains.memory import Allocations
from exporter.kernel.abi import ThreadState
from tests.unit.chains.job import DISK, HOG, OWN_SLEEP, SECOND, Job, Scene, changes


class TestRanks:
    """Two ranks in one communicator."""

    def test_rank_that_comes_late_and_the_one_that_waits(self) -> None:
        """Both are half as fast; rank 1 sleeps for a reason of its own, rank 0 waits for it."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        late = {"step_ms": 20.0, "lost": {OWN_SLEEP: 0.5}, "late": 0.5}
        scene.go_on(3, {"step_ms": 20.0}, late)

        assert sorted((chain.process, chain.cause, chain.peer) for _, chain in scene.transitions) == [
            (1, Cause.PEER_RANK, "1"),
            (2, Cause.SLOW_RANK, ""),
        ]
        assert {chain.process: chain.severity for _, chain in scene.transitions}[1] is Severity.MEDIUM

    def test_rank_that_another_one_waits_for_is_judged_although_its_own_steps_vary(self) -> None:
        """By four percent every other second: its own 9 % slowdown would be detected only later."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        for _ in range(12):
            for step_ms in (9.6, 10.0, 10.4):
                scene.go_on(2, {"step_ms": 10.0}, {"step_ms": step_ms})
        scene.go_on(4.75, {"step_ms": 11.0}, {"step_ms": 11.0, "late": 0.09})

        assert [(chain.process, chain.cause) for _, chain in scene.opened()] == [
            (1, Cause.PEER_RANK),
            (2, Cause.SLOW_RANK),
        ]

    def test_rank_that_is_no_later_than_ever_is_not_the_slow_one(self) -> None:
        """Four ranks on two CPUs wait for each other by turns; now their kernels take longer."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20, late=0.2)
        scene.go_on(5, step_ms=12.5, late=0.16)

        assert [chain.cause for _, chain in scene.opened()] == [Cause.GPU, Cause.PEER_RANK]

    def test_late_rank_with_a_cause_has_that_cause(self) -> None:
        """It waits for its disk."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.go_on(3, {"step_ms": 20.0}, {"step_ms": 20.0, "lost": {DISK: 0.5}, "late": 0.5})

        assert {chain.process: chain.cause for _, chain in scene.transitions} == {1: Cause.PEER_RANK, 2: Cause.BLOCK_IO}

    def test_rank_that_is_slow_together_with_another_waits_for_it(self) -> None:
        """Work that is queued on the GPU hides how late rank 1 arrives; but its disk is known to be slow."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.go_on(5, {"step_ms": 20.0}, {"step_ms": 20.0, "lost": {DISK: 0.5}})

        assert sorted((chain.process, chain.cause, chain.peer) for _, chain in scene.opened()) == [
            (1, Cause.PEER_RANK, "1"),
            (2, Cause.BLOCK_IO, ""),
        ]

    def test_rank_that_gets_no_cpu_does_not_hang(self) -> None:
        """Rank 0 has entered one more collective than rank 1, which waits for a CPU all the time."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        scene.go_on(5, {"step_ms": None}, {"step_ms": None, "lost": {HOG: 1.0}})

        assert Cause.NCCL_HANG not in [chain.cause for _, chain in scene.opened()]
        assert (2, Cause.CPU_CONTENTION) in [(chain.process, chain.cause) for _, chain in scene.opened()]

    def test_rank_that_never_arrives_is_named(self) -> None:
        """Rank 0 has entered one more collective, and neither goes on: one chain, of rank 1."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        scene.go_on(3, step_ms=None)

        ((change, chain),) = scene.transitions
        assert (change, chain.process, chain.cause, chain.peer) == (Change.OPENED, 2, Cause.NCCL_HANG, "1")
        assert chain.severity is Severity.CRITICAL

    def test_rank_that_is_stuck_in_a_lock_for_good_hangs(self) -> None:
        """What holds it up is booked as lost; that the others wait for it is the news, and the only one."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        scene.go_on(10, {"step_ms": None}, {"step_ms": None, "lost": {(Cause.LOCK, NO_CULPRIT): 1.0}})

        assert [(chain.process, chain.cause) for _, chain in scene.transitions] == [(2, Cause.NCCL_HANG)]

    def test_rank_that_waits_for_a_hanging_one_has_not_stalled(self) -> None:
        """Rank 0 stands in a call for half a minute: the chain of rank 1 is the only one."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        standing = Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 5 * SECOND)
        scene.go_on(30, step_ms=None, standing=standing)

        assert [(chain.process, chain.cause) for _, chain in scene.transitions] == [(2, Cause.NCCL_HANG)]

    def test_rank_that_waits_for_another_node_has_stalled(self) -> None:
        """Both ranks of this node have entered the same collectives."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        standing = Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 5 * SECOND)
        scene.go_on(6, step_ms=None, standing=standing)

        assert [(chain.process, chain.cause) for _, chain in scene.transitions] == [
            (1, Cause.STALLED),
            (2, Cause.STALLED),
        ]

    def test_rank_that_comes_after_all_ends_the_hang(self) -> None:
        """Everything goes on."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        scene.go_on(5, step_ms=None)
        scene.jobs[1].arrived += 1
        scene.go_on(10)

        assert changes(scene.transitions) == [(Change.OPENED, Cause.NCCL_HANG), (Change.RESOLVED, Cause.NCCL_HANG)]


class TestMemory:
    """An allocation failed."""

    def test_without_a_later_success_it_is_out_of_memory(self, scene: Scene) -> None:
        """After five seconds."""
        scene.jobs[0].allocations = Allocations(failed=1)
        before = scene.go_on(5)
        (opened,) = scene.go_on(0.25)

        assert (before, opened.chain.cause, opened.chain.severity) == ([], Cause.CUDA_OOM, Severity.CRITICAL)

    def test_retry_that_works_is_none(self, scene: Scene) -> None:
        """Two seconds later."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(2)
        scene.jobs[0].allocations = Allocations(failed=1, allocated_bytes=4096)

        assert scene.go_on(20) == []

    def test_job_that_dies_of_it_has_a_chain(self, scene: Scene) -> None:
        """At its end, opened and resolved."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(1)

        assert changes(scene.engine.end([1], scene.now_ns)) == [
            (Change.OPENED, Cause.CUDA_OOM),
            (Change.RESOLVED, Cause.CUDA_OOM),
        ]

    def test_later_success_resolves_it(self, scene: Scene) -> None:
        """It went on for ten seconds without one."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(10)
        scene.jobs[0].allocations = Allocations(failed=1, allocated_bytes=4096)
        (resolved,) = scene.go_on(0.25)

        assert (resolved.change, resolved.chain.end) == (Change.RESOLVED, End.RECOVERED)


class TestTime:
    """Clocks and loads that are not as they should be."""

    def test_two_ticks_at_one_moment_are_harmless(self, scene: Scene) -> None:
        """No time has passed."""
        scene.now_ns -= SECOND // 4
        scene.go_on(0.25)

        assert scene.go_on(10) == []

    def test_transitions_come_in_the_order_of_time(self, scene: Scene) -> None:
        """Whatever happens."""
        for step_ms, share in ((20.0, 0.5), (10.0, 0.0), (12.0, 0.17), (10.0, 0.0)):
            scene.go_on(15, step_ms=step_ms, lost={DISK: share})
        moments = [chain.resolved_ns or chain.updated_ns for _, chain in scene.transitions]

        assert len(moments) >= 4
        assert all(before <= after for before, after in pairwise(moments))


class TestCrash:
    """A process has ended, and how is known."""

    def test_crash_is_a_chain_that_is_over_at_once(self, scene: Scene) -> None:
        """Critical, with how it ended."""
        scene.go_on(1)
        opened, resolved = scene.engine.end([1], scene.now_ns, {1: Ending(signal.SIGSEGV, 0, at_ns=scene.now_ns)})

        assert (opened.change, opened.chain.cause, opened.chain.severity) == (
            Change.OPENED,
            Cause.CRASH,
            Severity.CRITICAL,
        )
        assert (resolved.change, resolved.chain.end) == (Change.RESOLVED, End.JOB_ENDED)
        assert opened.chain.detail == "ended by SIGSEGV"
        assert scene.engine.open_chains() == []

    def test_want_of_the_host_s_memory_is_a_cause_of_its_own(self, scene: Scene) -> None:
        """The kernel has ended it."""
        scene.go_on(1)
        opened, _ = scene.engine.end([1], scene.now_ns, {1: Ending(signal.SIGKILL, 0, is_victim=True)})

        assert opened.chain.cause is Cause.OOM_KILLED

    def test_wished_end_is_silent(self, scene: Scene) -> None:
        """With exit code 0, or ended on request."""
        scene.go_on(1)

        assert scene.engine.end([1], scene.now_ns, {1: Ending(0, 0)}) == []

    def test_process_that_ended_out_of_gpu_memory_has_that_chain_alone(self, scene: Scene) -> None:
        """Its exit code says no more."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(1)
        transitions = scene.engine.end([1], scene.now_ns, {1: Ending(0, 1)})

        assert [(one.change, one.chain.cause) for one in transitions] == [
            (Change.OPENED, Cause.CUDA_OOM),
            (Change.RESOLVED, Cause.CUDA_OOM),
        ]
