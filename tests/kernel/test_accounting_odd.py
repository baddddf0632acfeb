"""Threads that end badly, come in crowds, or were there before the exporter: sums hold, nothing is invented."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.kernel import abi
from exporter.kernel.abi import OPERATION_NONE, IntervalKind, ThreadState, Victim
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.thread_rows import ThreadRow
from tests.faults.injectors import cgroups
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer, eventually, only, tracer

pytestmark = pytest.mark.whole_machine

MS = 1_000_000

_OF_OTHERS = (IntervalKind.OTHER_GAP, IntervalKind.WORKER)
"""Outside of calls, of threads that are no step threads; what they did before their first call is a worker's."""


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

    def test_killed_process_leaves_the_time_of_all_its_threads(self, probed: Tracer, waits_program: Path) -> None:
        """SIGKILL while one thread is asleep in a call and another waits for it in one: what was open is abandoned."""
        with accounts.running(waits_program, "call", "threads", "1", "60000000") as process:

            def asleep() -> Sequence[ThreadRow]:
                threads = accounts.read(probed, {}).accounts.threads
                states = sorted(thread.state for thread in threads if thread.operation != OPERATION_NONE)
                return threads if states == [ThreadState.LOCK, ThreadState.SLEEP] else []

            threads = eventually(asleep, "both are asleep in their calls")
            process.kill()
            process.wait()
            killed_ns = time.monotonic_ns()
        account = accounts.read(probed, {})
        abandoned_ns = account.interval_ns(IntervalKind.ABANDONED)

        assert account.accounts.threads == []
        assert account.call_ns("cudaEventRecord") == {}
        assert sum(sum(thread.open_ns) for thread in threads) <= sum(abandoned_ns.values())
        assert sum(abandoned_ns.values()) <= sum(killed_ns - thread.opened_ns for thread in threads)

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

    def test_ten_thousand_threads_are_all_counted(self, probed: Tracer, waits_program: Path) -> None:
        """Fifty at once, 200 times over; each makes one call of 0.1 ms. All that they did is booked, from being made to ending:
        more than from when they are known to be there to their own last word, less than from before they are made to after.
        """
        account = accounts.run(probed, waits_program, "gap", "crowd", "200", "100")
        lived_ns = account.call_ns("cudaEventRecord"), account.interval_ns(*_OF_OTHERS)
        sum_ns = sum(sum(states_ns.values()) for states_ns in lived_ns)
        calls = only(
            row.timed
            for key, row in account.accounts.operations.items()
            if OPERATIONS[key.operation].name == "cudaEventRecord"
        )

        lost = sum(count for name, count in probed.losses().items() if name.startswith("cuda"))

        assert calls + lost == 10_000
        assert account.call_ns("cudaEventRecord")[ThreadState.SLEEP] >= calls * MS // 10
        assert account.truth["least_ns"] <= sum_ns <= account.truth["most_ns"]

    def test_crowds_keep_no_memory(self, probed: Tracer, waits_program: Path) -> None:
        """Of 50 threads at once no more than those of two crowds are there at any time; the tables do not grow at all."""
        with accounts.running(waits_program, "gap", "crowd", "100", "100") as process:
            most = 0
            while process.poll() is None:
                most = max(most, len(accounts.read(probed, {}).accounts.threads))
        account = accounts.read(probed, {})

        assert 1 <= most <= 1 + 2 * 50
        assert account.accounts.threads == []
        assert len(account.accounts.intervals) <= len(IntervalKind)
        assert len(account.accounts.operations) == len(accounts.FUNCTIONS)

    def test_time_without_a_row_is_counted_as_lost(self, waits_program: Path) -> None:
        """Room for one row outside of calls: a thread that ends needs one for its idle time and one for its gaps."""
        with tracer(capacities={"intervals": 1}) as small:
            accounts.probe(small, waits_program)
            account = accounts.run(small, waits_program, "gap", "nap", "3", "1000")

            assert [key.kind for key in account.accounts.intervals] == [IntervalKind.IDLE]
            assert small.losses() == {"process intervals_full": 1}


class TestSameTid:
    """The tid of a thread that has ended is given to another one at once."""

    @pytest.mark.parametrize("is_exit_seen", [True, False], ids=["exit_seen", "exit_missed"])
    def test_two_processes_are_told_apart(self, probed: Tracer, waits_program: Path, is_exit_seen: bool) -> None:
        """23 naps in the first process and 5 in the second, each in its own row.

        An exit that was not seen leaves the tid's number behind; that one is older than the second process.
        """
        accounts.run(probed, waits_program, "call", "nap", "23", "1000")
        ((number, first),) = probed.tables.read_processes().items()
        if not is_exit_seen:
            left = abi.PROCESS_NUMBER.pack(number, 0, first.start_ns)
            probed.kernel.maps["process_numbers"].put(abi.NUMBER.pack(first.tgid), left)
        account = _run_under(probed, first.tgid, waits_program, "call", "nap", "5", "1000")
        rows = {
            key.process: row
            for key, row in account.accounts.operations.items()
            if OPERATIONS[key.operation].name == "cudaEventRecord"
        }
        slept_ns = {process: row.states_ns[ThreadState.SLEEP] for process, row in rows.items()}

        assert [row.tgid for row in probed.tables.read_processes().values()] == [first.tgid] * 2
        assert {process: row.timed for process, row in rows.items()} == {number: 23, number + 1: 5}
        assert 5 * MS <= slept_ns[number + 1] <= account.truth["wall_ns"]
        assert slept_ns[number] >= 23 * MS


class TestMoved:
    """A program that changes its group while it runs."""

    def test_sums_hold(self, probed: Tracer, waits_program: Path, cpu_group: cgroups.Group) -> None:
        """Ten times to another group of the cpu controller and back, in which its run queue is another one."""
        places = (cpu_group.path, cpu_group.path.parent)
        there, back = (f"echo $P > {one}/cgroup.procs; sleep .05" for one in places)
        move = f"for i in 1 2 3 4 5; do sleep .05; {there}; {back}; done"
        command = f"P=$$; ({move}) & exec taskset -c 1 {waits_program} call spin 10 100000"
        with accounts.hogs(1, cpu=1):
            account = accounts.run(probed, "sh", "-c", command)
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


def _run_under(tracer: Tracer, tid: int, *command: str | Path) -> Account:
    environment = {**os.environ, "WAITS_TID": str(tid)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 77:
        pytest.skip(f"needs a tid of one's choice: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return accounts.read(tracer, json.loads(done.stdout))
