"""The feeding timeline: what kept a process from enqueuing work, and whether the GPU had work."""

from __future__ import annotations

import time
from pathlib import Path

from exporter.accounting.accountant import Accountant
from exporter.causes import Cause
from exporter.kernel.abi import ThreadState
from exporter.kernel.readings import Accounts
from tests.support import accounts
from tests.support.traced import Tracer, eventually, tracer

MS = 1_000_000
GAPS = 20


class TestStalls:
    """Gaps from the return of a synchronising call to the next launch."""

    def test_sleep_after_the_gpu_ran_dry_is_a_dry_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """20 sleeps of 3 ms, and the delay of their timers."""
        accounts.probe(account_tracer, waits_program)
        row = accounts.run(account_tracer, waits_program, "gap", "nap", str(GAPS), "3000").feeding

        assert GAPS * 3 * MS <= row.dry_ns[ThreadState.SLEEP] <= GAPS * 8 * MS
        assert row.late_ns[ThreadState.SLEEP] == 0

    def test_sleep_after_a_launch_is_a_late_stall(self, account_tracer: Tracer, wakeups_program: Path) -> None:
        """The 10 ms that the program sleeps between its first launch and its first synchronisation."""
        accounts.probe(account_tracer, wakeups_program)
        account = accounts.run(account_tracer, wakeups_program, "nap", "3", "1000")

        assert 10 * MS <= account.feeding.late_ns[ThreadState.SLEEP] <= 30 * MS
        assert 10 * MS <= account.exposure("cudaStreamSynchronize").late_ns <= 30 * MS

    def test_computing_is_no_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A thread on a CPU feeds."""
        accounts.probe(account_tracer, waits_program)
        row = accounts.run(account_tracer, waits_program, "gap", "burn", str(GAPS), "3000").feeding

        assert sum(ns for state, ns in enumerate(row.dry_ns) if state != ThreadState.RUNNABLE) < MS

    def test_waiting_for_the_gpu_is_no_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A sleep inside a synchronising call."""
        accounts.probe(account_tracer, waits_program)
        row = accounts.run(account_tracer, waits_program, "sync", "nap", str(GAPS), "3000").feeding

        assert sum(row.dry_ns) + sum(row.late_ns) < GAPS * MS

    def test_idle_part_of_a_gap_is_no_stall(self, waits_program: Path) -> None:
        """Three sleeps of 100 ms; a gap is idle after 20 ms."""
        with tracer(idle_ns=20 * MS) as traced:
            accounts.probe(traced, waits_program)
            row = accounts.run(traced, waits_program, "gap", "nap", "3", "100000").feeding

        assert 3 * 15 * MS <= row.dry_ns[ThreadState.SLEEP] <= 3 * 20 * MS

    def test_open_stall_counts_up_to_the_moment_of_reading(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A sleep of a minute, read while it lasts."""
        accounts.probe(account_tracer, waits_program)
        with accounts.running(waits_program, "gap", "nap", "1", "60000000"):
            read = eventually(lambda: _stalled(accounts.read(account_tracer, {}).accounts), "the nap has begun")
        accountant = Accountant()
        accountant.update(read, {1: "job"}, time.monotonic_ns())
        (thread,) = read.threads

        assert accountant.times()[1].lost == {(Cause.OWN_WAIT, ""): thread.read_ns - read.feeding[1].stalled_since_ns}

    def test_place_is_free_after_the_process_has_ended(self, account_tracer: Tracer, waits_program: Path) -> None:
        """Otherwise the 4,096 places would run out."""
        accounts.probe(account_tracer, waits_program)
        accounts.run(account_tracer, waits_program, "gap", "nap", "1", "1000")
        account_tracer.tables.forget({1}, account_tracer.tables.read())

        assert account_tracer.kernel.maps["feeding"].get((1).to_bytes(4, "little"))[:4] == bytes(4)
        assert account_tracer.kernel.maps["groups"].get((1).to_bytes(4, "little"))[:4] == bytes(4)


def _stalled(read: Accounts) -> Accounts | None:
    """The row of the one process, once it is stalled and dry and its thread sleeps."""
    is_asleep = [thread.state for thread in read.threads] == [ThreadState.SLEEP]
    is_stalled = [bool(row.stalled_since_ns and row.is_dry) for row in read.feeding.values()] == [True]
    return read if is_asleep and is_stalled else None
