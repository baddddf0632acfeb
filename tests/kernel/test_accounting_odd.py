"""Threads that end badly, come in crowds, or were there before the exporter: sums hold, nothing is invented."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from exporter.kernel.abi import OPERATION_NONE, IntervalKind, ThreadState, Victim
from tests.support import accounts
from tests.support.traced import Tracer, eventually

MS = 1_000_000
CPU_CONTROLLER = Path("/sys/fs/cgroup/cpu")


@pytest.fixture
def probed(account_tracer: Tracer, waits_program: Path) -> Tracer:
    """Probes on the program that waits."""
    accounts.probe(account_tracer, waits_program)
    return account_tracer


class TestEnds:
    """A thread that ends inside a call."""

    @pytest.mark.parametrize("way", ["ends", "dies"])
    def test_time_in_a_call_that_never_returned_is_abandoned(
        self, probed: Tracer, waits_program: Path, way: str
    ) -> None:
        """By _exit() and by SIGKILL, after a nap of 20 ms; it is in no operation's time."""
        account = accounts.run(probed, waits_program, "call", way, "1", "20000")

        assert account.interval_ns(IntervalKind.ABANDONED)[ThreadState.SLEEP] >= 20 * MS
        assert account.call_ns("cudaEventRecord") == {}

    def test_child_of_a_fork_inside_a_call_adds_nothing_to_it(self, probed: Tracer, waits_program: Path) -> None:
        """23 children return through their parent's call; the parent waits for each of them."""
        account = accounts.run(probed, waits_program, "call", "forks", "23", "1000")

        assert sum(account.call_ns("cudaEventRecord").values()) <= account.truth["wall_ns"]
        assert account.interval_ns(IntervalKind.WORKER)[ThreadState.ON_CPU] > 0

    def test_nothing_is_kept_of_the_dead_but_their_sums(self, probed: Tracer, waits_program: Path) -> None:
        """No living thread is told when all have ended."""
        account = accounts.run(probed, waits_program, "call", "threads", "23", "1000")

        assert account.accounts.threads == []


class TestCrowds:
    """Many threads one after the other."""

    def test_five_hundred_threads_lose_nothing(self, probed: Tracer, waits_program: Path) -> None:
        """Each makes one call of 0.1 ms, tids are used again; every call is booked."""
        account = accounts.run(probed, waits_program, "gap", "threads", "500", "100")

        assert account.call_ns("cudaEventRecord")[ThreadState.SLEEP] >= 500 * MS // 10
        assert {name for name in probed.losses() if name.startswith(("sched", "process"))} == set()


class TestMoved:
    """A program that changes its group while it runs."""

    def test_sums_hold(self, probed: Tracer, waits_program: Path) -> None:
        """Ten times to another group of the cpu controller and back, in which its run queue is another one."""
        if not (CPU_CONTROLLER / "cpu.shares").exists():
            pytest.skip(f"needs the cpu controller of cgroup v1 at {CPU_CONTROLLER}")
        group = CPU_CONTROLLER / "gpustall-test-moved"
        group.mkdir()
        try:
            there, back = (f"echo $P > {one}/cgroup.procs; sleep .05" for one in (group, CPU_CONTROLLER))
            move = f"for i in 1 2 3 4 5; do sleep .05; {there}; {back}; done"
            command = f"P=$$; ({move}) & exec taskset -c 1 {waits_program} call spin 10 100000"
            with accounts.hogs(1, cpu=1):
                account = accounts.run(probed, "sh", "-c", command)
        finally:
            eventually(lambda: not (group / "cgroup.procs").read_text(), "the group is empty")
            group.rmdir()
        beyond_ns = account.truth["wall_ns"] - sum(account.call_ns("cudaEventRecord").values())

        assert 0 <= beyond_ns <= 2 * MS + sum(account.interval_ns(IntervalKind.GAP).values())


class TestLateStart:
    """The exporter starts while the program runs."""

    def test_what_was_before_is_unknown_and_not_invented(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A call that was open when the probes came is not told; the next ones are."""
        command = [waits_program, "call", "nap", "400", "10000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                accounts.probe(account_tracer, waits_program)

                def in_a_call() -> bool:
                    threads = accounts.read(account_tracer, {}).accounts.threads
                    return any(thread.operation != OPERATION_NONE for thread in threads)

                eventually(in_a_call, "an open call is told")
                (thread,) = accounts.read(account_tracer, {}).accounts.threads
            finally:
                process.kill()

        assert sum(thread.open_ns) <= thread.read_ns - thread.opened_ns + MS
        assert thread.victim is Victim.STEP

    def test_children_from_before_are_adopted(self, account_tracer: Tracer, chains_program: Path) -> None:
        """The worker was forked before anything was traced."""
        command = [chains_program, "nap", "400", "10000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                eventually(lambda: _children(process.pid), "the worker is there")
                accounts.probe(account_tracer, chains_program)
                eventually(account_tracer.tables.read_processes, "the process is traced")
                account_tracer.kernel.iterate("threads_adopt")

                def worker_booked() -> bool:
                    threads = accounts.read(account_tracer, {}).accounts.threads
                    return any(t.victim is Victim.WORKER and t.booked_ns[ThreadState.SLEEP] > MS for t in threads)

                eventually(worker_booked, "the worker's sleep is booked")
            finally:
                process.kill()


def _children(tgid: int) -> str:
    return Path(f"/proc/{tgid}/task/{tgid}/children").read_text(encoding="ascii").strip()
