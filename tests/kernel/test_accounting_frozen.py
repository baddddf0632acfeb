"""Frozen control groups: a thread of one is stopped, whatever it did when that happened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.kernel.abi import ThreadState
from tests.support import accounts
from tests.support.named_cgroup import named_cgroup
from tests.support.traced import Tracer, eventually

TIMES, SECONDS = 5, 0.1
MS = 1_000_000
FREEZERS = {"v2": ("cgroup.freeze", "1", "0"), "freezer": ("freezer.state", "FROZEN", "THAWED")}


class TestFrozen:
    """Five times for 0.1 s."""

    @pytest.mark.parametrize("hierarchy", FREEZERS)
    @pytest.mark.parametrize("way", ["spin", "pipe"])
    def test_thread_is_stopped(self, account_tracer: Tracer, waits_program: Path, way: str, hierarchy: str) -> None:
        """It computes, or sleeps in a system call, in one call of two seconds."""
        file, frozen, thawed = FREEZERS[hierarchy]
        accounts.probe(account_tracer, waits_program)
        with (
            named_cgroup(hierarchy, "gpustall-frozen") as group,
            accounts.running(waits_program, "call", way, "1", "2000000") as process,
        ):
            (group / "cgroup.procs").write_text(str(process.pid))
            eventually(lambda: accounts.read(account_tracer, {}).accounts.threads, "the call has begun")
            for _ in range(TIMES):
                (group / file).write_text(frozen)
                time.sleep(SECONDS)
                (group / file).write_text(thawed)
                time.sleep(SECONDS / 5)
            process.wait()
            states_ns = accounts.read(account_tracer, {}).call_ns("cudaEventRecord")

        assert states_ns[ThreadState.STOPPED] == pytest.approx(TIMES * SECONDS * 1000 * MS, rel=0.1)
        assert states_ns.get(ThreadState.FAULT, 0) < 0.1 * TIMES * SECONDS * 1000 * MS
