"""Frozen control groups: a thread of one is stopped, whatever it did when that happened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.kernel.abi import OPERATION_NONE, ThreadState
from exporter.kernel.operations import NUMBERS
from exporter.kernel.thread_rows import ThreadRow
from tests.support import accounts
from tests.support.named_cgroup import named_cgroup
from tests.support.traced import Tracer, eventually, only

MS = 1_000_000
TIMES, LEAST_NS = 5, 20 * MS
FREEZERS = {"v2": ("cgroup.freeze", "1", "0"), "freezer": ("freezer.state", "FROZEN", "THAWED")}


class TestFrozen:
    """Five times for 20 ms at least."""

    @pytest.mark.parametrize("hierarchy", FREEZERS)
    @pytest.mark.parametrize("way", ["spin", "pipe"])
    def test_thread_is_stopped(self, account_tracer: Tracer, waits_program: Path, way: str, hierarchy: str) -> None:
        """It computes, or sleeps in a system call, in one call that does not end. A missed event costs one of the times."""
        file, frozen, thawed = FREEZERS[hierarchy]
        accounts.probe(account_tracer, waits_program)
        with (
            named_cgroup(hierarchy, "frozen") as group,
            accounts.running(waits_program, "call", way, "1", "600000000") as process,
        ):
            (group / "cgroup.procs").write_text(str(process.pid))
            eventually(lambda: _is_in_a_call(account_tracer), "the call has begun")
            least_ns = most_ns = 0
            for _ in range(TIMES):
                most_ns -= time.monotonic_ns()
                (group / file).write_text(frozen)
                eventually(lambda: _is_frozen(group, hierarchy), "it is frozen")
                eventually(lambda: _thread(account_tracer).state == ThreadState.STOPPED, "its thread is stopped")
                least_ns -= time.monotonic_ns()
                time.sleep(LEAST_NS / 1e9)
                least_ns += time.monotonic_ns()
                (group / file).write_text(thawed)
                eventually(lambda: _thread(account_tracer).state != ThreadState.STOPPED, "its thread goes on")
                most_ns += time.monotonic_ns()
            thread = _thread(account_tracer)
            missed_ns = account_tracer.tables.healed() * most_ns

        assert least_ns - missed_ns <= thread.open_ns[ThreadState.STOPPED] <= most_ns + missed_ns
        assert sum(thread.open_ns) <= time.monotonic_ns() - thread.opened_ns


def _thread(tracer: Tracer) -> ThreadRow:
    """That of the program. Its helping child has another tgid."""
    threads = accounts.read(tracer, {}).accounts.threads
    thread: ThreadRow = only(thread for thread in threads if thread.operation != OPERATION_NONE)
    return thread


def _is_frozen(group: Path, hierarchy: str) -> bool:
    """Its processes freeze a moment after the file is written."""
    if hierarchy == "v2":
        return "frozen 1\n" in (group / "cgroup.events").read_text()
    return (group / "freezer.state").read_text() == "FROZEN\n"


def _is_in_a_call(tracer: Tracer) -> bool:
    """The program launches once before its call."""
    threads = accounts.read(tracer, {}).accounts.threads
    return any(thread.operation == NUMBERS["cudaEventRecord"] for thread in threads)
