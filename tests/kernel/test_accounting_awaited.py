"""Who is waited for: the reader of a full pipe, the writer of an empty one, the holder of a lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.accounting.accountant import Accountant
from exporter.causes import Cause
from exporter.kernel.abi import Awaited, IntervalKind, ThreadState, Victim
from tests.support import accounts
from tests.support.accounts import Account, compiled
from tests.support.traced import Tracer, eventually

WAITS = 23
WAIT_US = 20_000

Run = Callable[..., Account]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """awaited.c."""
    return compiled(Path(__file__).with_name("awaited.c"), tmp_path_factory.mktemp("awaited"))


@pytest.fixture
def run(account_tracer: Tracer, program: Path, tmp_path: Path, cpu: int) -> Run:
    """Runs the program in one way, with WAITS waits, on one CPU."""
    accounts.probe(account_tracer, program)
    file = tmp_path / "locked"
    file.write_bytes(os.urandom(2 << 20))
    with file.open("rb") as found:
        os.fsync(found.fileno())
        os.posix_fadvise(found.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def run(way: str, us: int = WAIT_US, **environment: str) -> Account:
        command = ("taskset", "-c", str(cpu), program, way, str(WAITS), str(us), file)
        return accounts.run(account_tracer, *command, environment=environment)

    return run


def lost_ns(account: Account) -> dict[tuple[Cause, str], int]:
    """What the accounting makes of it."""
    books = Accountant()
    (process,) = account.accounts.feeding
    books.update(account.accounts, {process: process}, 1)
    return {key: ns for key, ns in books.times()[process].lost.items() if ns}


def slept_ns(account: Account, state: ThreadState) -> dict[tuple[Awaited, bytes], int]:
    """The rows of a state by kind and name."""
    return {(key.by.kind, key.by.comm): ns for key, ns in account.accounts.awaited.items() if key.state is state}


def stalled_ns(account: Account, state: ThreadState) -> int:
    """Stalls in a state, whether or not the GPU had work."""
    return account.feeding.dry_ns[state] + account.feeding.late_ns[state]


def check_sleeps(account: Account, state: ThreadState, kind: Awaited, name: bytes) -> None:
    """All sleeps in this state are stalls, and ended by this process: to the nanosecond, unless an event was missed."""
    gaps_ns = account.interval_ns(IntervalKind.GAP).get(state, 0)

    assert slept_ns(account, state).keys() == {(kind, name)}
    assert gaps_ns <= account.truth["waited_ns"]
    assert slept_ns(account, state)[kind, name] == stalled_ns(account, state) == gaps_ns or account.healed


@pytest.mark.parametrize("environment", [{}, {"AWAITED_UNIX": "1"}], ids=["pipe", "unix"])
class TestPipes:
    """A process that was there before the job reads or writes, also at the other end of a Unix socket."""

    def test_blocked_writes_are_output(self, run: Run, environment: dict[str, str]) -> None:
        """The pipe is full; each of 23 writes waits for its reader."""
        account = run("write", **environment)
        lost = lost_ns(account)

        check_sleeps(account, ThreadState.OUTPUT, Awaited.PROCESS, b"partner")
        assert lost[Cause.BLOCKED_OUTPUT, "partner"] == stalled_ns(account, ThreadState.OUTPUT) > 0

    def test_program_outside_the_job_that_writes_is_no_dataloader(self, run: Run, environment: dict[str, str]) -> None:
        """It writes after 20 ms, 23 times."""
        account = run("pipe", **environment)
        found = lost_ns(account)

        check_sleeps(account, ThreadState.PIPE, Awaited.PROCESS, b"partner")
        assert found[Cause.OWN_WAIT, "partner"] == stalled_ns(account, ThreadState.PIPE) > 0
        others = (Cause.DATALOADER, Cause.OTHER, Cause.BLOCKED_OUTPUT, Cause.NETWORK)
        assert not {key for key in found if key[0] in others}

    def test_stopped_reader_is_known_while_the_write_lasts(
        self, account_tracer: Tracer, program: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It read once, and was stopped before the pipe was full."""
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        accounts.probe(account_tracer, program)
        with accounts.running(program, "stopped", "1", "0"):

            def blocked() -> list[tuple[Awaited, bytes]]:
                threads = account_tracer.tables.read_threads()
                return [
                    (row.reader.kind, row.reader.comm)
                    for row in threads
                    if (row.victim, row.state) == (Victim.STEP, ThreadState.OUTPUT)
                ]

            eventually(lambda: bool(blocked()), "the write is blocked")

            assert blocked() == [(Awaited.PROCESS, b"partner")]


class TestWorkers:
    """A process of the job, which the step thread waits for."""

    def test_pages_that_were_read_before_the_wait_began_are_its_cause(self, run: Run) -> None:
        """The wait is for computing alone; without the pages before that it would have been so much shorter."""
        account = run("pages")
        row = account.wakeup_row(ThreadState.PIPE)

        assert row.states_ns[ThreadState.FAULT] > 0
        assert sum(row.states_ns) == row.resolved_ns <= account.truth["waited_ns"]


class TestLocks:
    """The holder is known when it releases the lock."""

    @pytest.mark.parametrize(("way", "kind"), [("file", Awaited.PROCESS), ("worker-file", Awaited.WORKER)])
    def test_holder_of_a_file_s_lock_is_a_process(self, run: Run, way: str, kind: Awaited) -> None:
        """It sleeps for 20 ms with the lock, 23 times; also if it belongs to the job, it is no data loader."""
        account = run(way)
        found = lost_ns(account)

        check_sleeps(account, ThreadState.LOCK, kind, b"partner")
        assert found[Cause.LOCK, "partner"] > 0
        assert not {key for key in found if key[0] is Cause.DATALOADER}

    def test_holder_that_competes_with_workers_of_the_job_is_the_culprit(self, run: Run) -> None:
        """It computes for 5 ms with a mutex, 23 times: all waits for the mutex are its own."""
        account = run("mutex", 5000)

        check_sleeps(account, ThreadState.LOCK, Awaited.THREAD, b"holder")
        assert lost_ns(account)[Cause.LOCK, "holder"] > 0
