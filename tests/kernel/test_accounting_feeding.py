"""The feeding timeline: what kept a process from giving the GPU work, and whether the GPU had some."""

from __future__ import annotations

from pathlib import Path

from exporter.kernel.abi import ThreadState
from tests.support import accounts
from tests.support.traced import Tracer

MS = 1_000_000
GAPS = 20


class TestStalls:
    """Gaps that begin when a synchronising call returns and end with a launch."""

    def test_sleep_after_the_gpu_ran_dry_is_a_dry_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """20 naps of 3 ms, and what their timers come too late."""
        accounts.probe(account_tracer, waits_program)
        row = accounts.run(account_tracer, waits_program, "gap", "nap", str(GAPS), "3000").feeding

        assert GAPS * 3 * MS <= row.dry_ns[ThreadState.SLEEP] <= GAPS * 8 * MS
        assert row.late_ns[ThreadState.SLEEP] == 0

    def test_sleep_after_a_launch_is_a_late_stall(self, account_tracer: Tracer, chains_program: Path) -> None:
        """The 10 ms that the program sleeps between its first launch and its first synchronisation."""
        accounts.probe(account_tracer, chains_program)
        row = accounts.run(account_tracer, chains_program, "nap", "3", "1000").feeding

        assert 10 * MS <= row.late_ns[ThreadState.SLEEP] <= 30 * MS
        assert row.stalled_waits >= 1

    def test_computing_is_no_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """The thread is on a CPU: it feeds."""
        accounts.probe(account_tracer, waits_program)
        row = accounts.run(account_tracer, waits_program, "gap", "burn", str(GAPS), "3000").feeding

        assert sum(ns for state, ns in enumerate(row.dry_ns) if state != ThreadState.RUNNABLE) < MS

    def test_waiting_for_the_gpu_is_no_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A sleep inside a synchronising call."""
        accounts.probe(account_tracer, waits_program)
        row = accounts.run(account_tracer, waits_program, "sync", "nap", str(GAPS), "3000").feeding

        assert sum(row.dry_ns) + sum(row.late_ns) < GAPS * MS

    def test_place_is_free_after_the_process_is_forgotten(self, account_tracer: Tracer, waits_program: Path) -> None:
        """Or the 4,096 places would be used up."""
        accounts.probe(account_tracer, waits_program)
        accounts.run(account_tracer, waits_program, "gap", "nap", "1", "1000")
        account_tracer.tables.forget({1}, account_tracer.tables.read())

        assert account_tracer.kernel.maps["feeding"].get((1).to_bytes(4, "little"))[:4] == bytes(4)
        assert account_tracer.kernel.maps["groups"].get((1).to_bytes(4, "little"))[:4] == bytes(4)
