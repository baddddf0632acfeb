"""Frozen control groups: a thread of one is stopped, whatever it did when that happened."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.kernel.abi import ThreadState
from exporter.kernel.operations import NUMBERS
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
    @pytest.mark.acceptance
    def test_thread_is_stopped(self, account_tracer: Tracer, waits_program: Path, way: str, hierarchy: str) -> None:
        """It computes, or sleeps in a system call, in one call of two seconds.

        A missed event costs one of the five times; if it is an end, the thread counts as stopped up to the next one.
        """
        file, frozen, thawed = FREEZERS[hierarchy]
        accounts.probe(account_tracer, waits_program)
        with (
            named_cgroup(hierarchy, "gpustall-frozen") as group,
            accounts.running(waits_program, "call", way, "1", "2000000") as process,
        ):
            (group / "cgroup.procs").write_text(str(process.pid))
            eventually(lambda: _is_in_a_call(account_tracer), "the call has begun")
            least_ns = most_ns = 0
            for _ in range(TIMES):
                most_ns -= time.monotonic_ns()
                (group / file).write_text(frozen)
                eventually(lambda: _is_frozen(group, hierarchy), "it is frozen")
                least_ns -= time.monotonic_ns()
                time.sleep(SECONDS)
                least_ns += time.monotonic_ns()
                (group / file).write_text(thawed)
                most_ns += time.monotonic_ns()
                time.sleep(SECONDS / 5)
            process.wait()
            account = accounts.read(account_tracer, {})
        states_ns = account.call_ns("cudaEventRecord")
        seen_share = (TIMES - account.healed) / TIMES

        assert states_ns[ThreadState.STOPPED] >= 0.9 * seen_share * least_ns
        assert states_ns[ThreadState.STOPPED] <= 1.1 * most_ns or account.healed
        assert states_ns.get(ThreadState.FAULT, 0) < 0.1 * least_ns


def _is_frozen(group: Path, hierarchy: str) -> bool:
    """Its processes freeze a moment after the file is written."""
    if hierarchy == "v2":
        return "frozen 1\n" in (group / "cgroup.events").read_text()
    return (group / "freezer.state").read_text() == "FROZEN\n"


def _is_in_a_call(tracer: Tracer) -> bool:
    """The program launches once before its call."""
    threads = accounts.read(tracer, {}).accounts.threads
    return any(thread.operation == NUMBERS["cudaEventRecord"] for thread in threads)
