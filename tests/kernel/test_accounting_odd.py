"""Threads that are killed, come in crowds, or started before the exporter: the sums hold."""

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
"""Kinds of time outside calls, of threads that are no step threads; time before their first call is a worker's."""


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
        """By _exit() and by SIGKILL, after a sleep of 20 ms; it is in no operation's time."""
        account = accounts.run(probed, waits_program, "call", way, "1", "20000")

        assert account.interval_ns(IntervalKind.ABANDONED)[ThreadState.SLEEP] >= 20 * MS
        assert account.call_ns("cudaEventRecord") == {}

    def test_time_of_all_threads_of_a_killed_process_is_kept(self, probed: Tracer, waits_program: Path) -> None:
        """SIGKILL while one thread sleeps in a call and another waits for it in a call: open calls are abandoned."""
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

    def test_child_of_a_fork_inside_a_call_adds_no_time(self, probed: Tracer, waits_program: Path) -> None:
        """23 children return through their parent's call; the parent waits for each."""
        account = accounts.run(probed, waits_program, "call", "forks", "23", "1000")

        assert sum(account.call_ns("cudaEventRecord").values()) <= account.truth["wall_ns"]
        assert account.interval_ns(IntervalKind.WORKER)[ThreadState.ON_CPU] > 0

    def test_ended_threads_leave_only_their_sums(self, probed: Tracer, waits_program: Path) -> None:
        """No living thread is read when all have ended."""
        account = accounts.run(probed, waits_program, "call", "threads", "23", "1000")

        assert account.accounts.threads == []


class TestCrowds:
    """Many short threads."""

    def test_all_calls_of_five_hundred_threads_are_booked(self, probed: Tracer, waits_program: Path) -> None:
        """Each makes one call of 0.1 ms; tids are reused."""
        account = accounts.run(probed, waits_program, "gap", "threads", "500", "100")

        assert account.call_ns("cudaEventRecord")[ThreadState.SLEEP] >= 500 * MS // 10
        assert {name for name in probed.drops() if name.startswith(("sched", "process"))} == set()

    def test_ten_thousand_threads_are_all_counted(self, probed: Tracer, waits_program: Path) -> None:
        """200 times fifty threads at once, each with one call of 0.1 ms. All their time is booked, from creation to end.

        The sum lies between the span that each thread measures itself and the span around its creation and join.
        """
        account = accounts.run(probed, waits_program, "gap", "crowd", "200", "100")
        lived_ns = account.call_ns("cudaEventRecord"), account.interval_ns(*_OF_OTHERS)
        sum_ns = sum(sum(states_ns.values()) for states_ns in lived_ns)
        calls = only(
            row.timed
            for key, row in account.accounts.operations.items()
            if OPERATIONS[key.operation].name == "cudaEventRecord"
        )

        lost = sum(count for name, count in probed.drops().items() if name.startswith("cuda"))

        assert calls + lost == 10_000
        assert account.call_ns("cudaEventRecord")[ThreadState.SLEEP] >= calls * MS // 10
        assert account.truth["least_ns"] <= sum_ns <= account.truth["most_ns"]

    def test_crowds_leave_no_memory_behind(self, probed: Tracer, waits_program: Path) -> None:
        """With 50 threads at a time, at most two crowds exist at once; the maps do not grow."""
        with accounts.running(waits_program, "gap", "crowd", "100", "100") as process:
            most = 0
            while process.poll() is None:
                most = max(most, len(accounts.read(probed, {}).accounts.threads))
        account = accounts.read(probed, {})

        assert 1 <= most <= 1 + 2 * 50
        assert account.accounts.threads == []
        assert len(account.accounts.intervals) <= len(IntervalKind)
        assert len(account.accounts.operations) == len(accounts.FUNCTIONS)

    def test_time_without_a_row_is_counted_as_dropped(self, waits_program: Path) -> None:
        """Room for one row outside calls: an ending thread needs one for its idle time and one for its gaps."""
        with tracer(capacities={"intervals": 1}) as small:
            accounts.probe(small, waits_program)
            account = accounts.run(small, waits_program, "gap", "nap", "3", "1000")

            assert [key.kind for key in account.accounts.intervals] == [IntervalKind.IDLE]
            assert small.drops() == {"process intervals_full": 1}


class TestSameTid:
    """The tid of an ended thread is reused at once."""

    @pytest.mark.parametrize("is_exit_seen", [True, False], ids=["exit_seen", "exit_missed"])
    def test_two_processes_with_one_tgid_are_separate(
        self, probed: Tracer, waits_program: Path, is_exit_seen: bool
    ) -> None:
        """23 sleeps in the first process and 5 in the second, each in its own row.

        A missed exit leaves a process number behind, which is recognised as older than the second process.
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
    """A program that changes its cgroup while it runs."""

    def test_sums_hold_across_moves_between_cgroups(
        self, probed: Tracer, waits_program: Path, cpu_group: cgroups.Group
    ) -> None:
        """Ten times to another group of the cpu controller and back; each group has its own run queue."""
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

    def test_time_before_the_exporter_is_not_booked(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A call that was open at the attachment is not counted; later ones are."""
        command = [waits_program, "call", "nap", "400", "10000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                accounts.probe(account_tracer, waits_program)

                def in_a_call() -> bool:
                    threads = accounts.read(account_tracer, {}).accounts.threads
                    return any(thread.operation != OPERATION_NONE for thread in threads)

                eventually(in_a_call, "a call is open")
                (thread,) = accounts.read(account_tracer, {}).accounts.threads
            finally:
                process.kill()

        assert sum(thread.open_ns) <= thread.read_ns - thread.opened_ns + MS
        assert thread.victim is Victim.STEP

    def test_children_from_before_are_adopted(self, account_tracer: Tracer, wakeups_program: Path) -> None:
        """The worker was forked before tracing began."""
        command = [wakeups_program, "nap", "400", "10000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                eventually(lambda: _children(process.pid), "the worker is there")
                accounts.probe(account_tracer, wakeups_program)
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
