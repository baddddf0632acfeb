"""Threads that are killed, come in crowds, or started before the exporter: the sums hold."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.kernel import abi
from exporter.kernel.abi import OPERATION_NONE, IntervalKind, ThreadState, Victim
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.thread_rows import ThreadRow
from tests.faults.injectors import cgroups
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import Tracer, eventually, only, tracer

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

        assert account.interval_ns(IntervalKind.ABANDONED)[ThreadState.SLEEP] >= (1 - account.healed) * 20 * MS
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

        assert account.call_ns("cudaEventRecord")[ThreadState.SLEEP] >= (500 - account.healed) * MS // 10
        assert {name for name in probed.drops() if name.startswith(("sched", "process"))} == set()

    def test_two_thousand_threads_are_all_counted(self, probed: Tracer, waits_program: Path) -> None:
        """40 times fifty threads at once, each with one call of 0.1 ms. All their time is booked, from creation to end.

        The sum lies between the span that each thread measures itself and the span around its creation and join.
        """
        account = accounts.run(probed, waits_program, "gap", "crowd", "40", "100")
        lived_ns = account.call_ns("cudaEventRecord"), account.interval_ns(*_OF_OTHERS)
        sum_ns = sum(sum(states_ns.values()) for states_ns in lived_ns)
        calls = only(
            row.timed
            for key, row in account.accounts.operations.items()
            if OPERATIONS[key.operation].name == "cudaEventRecord"
        )

        lost = sum(count for name, count in probed.drops().items() if name.startswith("cuda"))

        assert calls + lost == 2000
        assert account.call_ns("cudaEventRecord")[ThreadState.SLEEP] >= (calls - account.healed) * MS // 10
        assert account.truth["least_ns"] <= sum_ns <= account.truth["most_ns"]

    def test_crowds_leave_no_memory_behind(self, probed: Tracer, waits_program: Path) -> None:
        """The maps do not grow, and no living thread is read when all have ended."""
        account = accounts.run(probed, waits_program, "gap", "crowd", "40", "100")

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
        with _held(waits_program, "call", "nap", "23", "1000") as process:
            eventually(lambda: _calls(probed) == 23, "it has made its calls")
            ((number, first),) = probed.tables.read_processes().items()
            ((tgid, _),) = probed.kernel.maps["process_numbers"].items()  # in the machine's PID namespace
            process.communicate("\n")
        if not is_exit_seen:
            left = abi.PROCESS_NUMBER.pack(number, 0, first.start_ns)
            probed.kernel.maps["process_numbers"].put(tgid, left)
        account = _run_under(probed, first.tgid, waits_program, "call", "nap", "5", "1000")
        rows = {
            key.process: row
            for key, row in account.accounts.operations.items()
            if OPERATIONS[key.operation].name == "cudaEventRecord"
        }
        slept_ns = {process: row.states_ns[ThreadState.SLEEP] for process, row in rows.items()}

        assert [row.tgid for row in probed.tables.read_processes().values()] == [first.tgid] * 2
        assert {process: row.timed for process, row in rows.items()} == {number: 23, number + 1: 5}
        assert (5 - account.healed) * MS <= slept_ns[number + 1] <= account.truth["inside_ns"]
        assert slept_ns[number] >= (23 - account.healed) * MS


class TestMoved:
    """A program that is moved to another cgroup while it runs."""

    def test_sums_hold_across_moves_between_cgroups(
        self, probed: Tracer, waits_program: Path, cpu_group: cgroups.Group, cpu: int
    ) -> None:
        """Ten times to another group of the cpu controller and back, each of which has its own run queue."""
        command = ("taskset", "-c", str(cpu), waits_program, "call", "spin", "1", "600000000")
        with accounts.hogs(1, cpu), accounts.running(*command) as process:
            for path in (cpu_group.path, cpu_group.path.parent) * 5:
                switches = _switches(probed)
                eventually(
                    lambda seen=switches: _switches(probed) > seen, "it has been switched out since the last move"
                )
                (path / "cgroup.procs").write_text(str(process.pid))
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            thread = only(accounts.read(probed, {}).accounts.threads)

        assert thread.state == ThreadState.STOPPED
        assert sum(thread.open_ns) == thread.read_ns - thread.opened_ns


def _switches(probed: Tracer) -> int:
    """How often living threads were preempted."""
    return sum(thread.involuntary for thread in accounts.read(probed, {}).accounts.threads)


class TestLateStart:
    """The exporter starts while the program runs."""

    def test_time_before_the_exporter_is_not_booked(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A call that was open at the attachment is not counted; later ones are."""
        command = [waits_program, "call", "nap", "40000", "10000"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                attached_ns = time.monotonic_ns()
                accounts.probe(account_tracer, waits_program)

                def asleep_in_a_call() -> ThreadRow | None:
                    threads = accounts.read(account_tracer, {}).accounts.threads
                    asleep = (thread for thread in threads if thread.state == ThreadState.SLEEP)
                    return next((thread for thread in asleep if thread.operation != OPERATION_NONE), None)

                thread = eventually(asleep_in_a_call, "it sleeps in a call")
            finally:
                process.kill()

        assert attached_ns <= thread.opened_ns
        assert sum(thread.open_ns) == thread.read_ns - thread.opened_ns
        assert thread.victim is Victim.STEP

    def test_children_from_before_are_adopted(self, account_tracer: Tracer, wakeups_program: Path) -> None:
        """The worker was forked before tracing began."""
        command = [wakeups_program, "nap", "40000", "10000"]
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


@contextmanager
def _held(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A program that ends after it has read a line."""
    environment = {**os.environ, "WAITS_HELD": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _calls(probed: Tracer) -> int:
    """Calls of cudaEventRecord that have returned."""
    rows = probed.tables.read().operations.items()
    return sum(row.calls for key, row in rows if OPERATIONS[key.operation].name == "cudaEventRecord")


def _children(tgid: int) -> str:
    return Path(f"/proc/{tgid}/task/{tgid}/children").read_text(encoding="ascii").strip()


def _run_under(tracer: Tracer, tid: int, *command: str | Path) -> Account:
    environment = {**os.environ, "WAITS_TID": str(tid)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    if done.returncode == 77:
        pytest.skip(f"needs a tid of one's choice: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return accounts.read(tracer, json.loads(done.stdout))
