"""The feeding timeline: what kept a process from enqueuing work, and whether the GPU had work."""

from __future__ import annotations

import time
from pathlib import Path

from exporter.accounting.accountant import Accountant
from exporter.causes import Cause
from exporter.kernel.abi import IntervalKind, ThreadState
from exporter.kernel.readings import Accounts
from tests.support import accounts
from tests.support.accounts import UNASKED, Account
from tests.support.traced import Tracer, eventually, tracer

MS = 1_000_000
GAPS = 20


class TestStalls:
    """Gaps from the return of a synchronising call to the next launch."""

    def test_sleep_after_the_gpu_ran_dry_is_a_dry_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """20 sleeps of 3 ms, and the delay of their timers, as the program measures them. A missed event costs one sleep."""
        accounts.probe(account_tracer, waits_program)
        account = accounts.run(account_tracer, waits_program, "gap", "nap", str(GAPS), "3000")
        row = account.feeding

        assert (GAPS - account.healed) * 3 * MS <= row.dry_ns[ThreadState.SLEEP] <= account.truth["wall_ns"]
        assert (
            row.dry_ns[ThreadState.SLEEP] == account.interval_ns(IntervalKind.GAP)[ThreadState.SLEEP] or account.healed
        )
        assert row.late_ns[ThreadState.SLEEP] == 0

    def test_sleep_after_a_launch_is_a_late_stall(self, account_tracer: Tracer, wakeups_program: Path) -> None:
        """10 ms of sleep between the first launch and the first synchronisation, and what else the program does there."""
        accounts.probe(account_tracer, wakeups_program)
        account = accounts.run(account_tracer, wakeups_program, "nap", "3", "1000")
        least_ns, most_ns = (1 - account.healed) * 10 * MS, account.truth["behind_launch_ns"]  # unless it was missed

        assert least_ns <= account.feeding.late_ns[ThreadState.SLEEP] <= most_ns
        assert least_ns <= account.exposure("cudaStreamSynchronize").late_ns <= most_ns

    def test_computing_is_no_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A thread on a CPU feeds. What a busy machine adds is stalls of other states than this one."""
        accounts.probe(account_tracer, waits_program)
        account = accounts.run(account_tracer, waits_program, "gap", "burn", str(GAPS), "3000")

        assert account.interval_ns(IntervalKind.GAP)[ThreadState.ON_CPU] > 0
        assert stalled_ns(account).keys() <= UNASKED - {ThreadState.ON_CPU}

    def test_waiting_for_the_gpu_is_no_stall(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A sleep inside a synchronising call. Between two calls, the thread may have to wait for a CPU."""
        accounts.probe(account_tracer, waits_program)
        account = accounts.run(account_tracer, waits_program, "sync", "nap", str(GAPS), "3000")

        assert account.call_ns("cudaStreamSynchronize")[ThreadState.SLEEP] >= (GAPS - account.healed) * 3 * MS
        assert stalled_ns(account).keys() <= UNASKED - {ThreadState.ON_CPU} or account.healed

    def test_idle_part_of_a_gap_is_no_stall(self, waits_program: Path) -> None:
        """Three sleeps of 100 ms; a gap is idle after 20 ms. A sleep whose end was missed counts in full, or not at all."""
        with tracer(idle_ns=20 * MS) as traced:
            accounts.probe(traced, waits_program)
            account = accounts.run(traced, waits_program, "gap", "nap", "3", "100000")
        slept_ns = account.feeding.dry_ns[ThreadState.SLEEP]
        in_gaps_ns = account.interval_ns(IntervalKind.GAP).get(ThreadState.SLEEP, 0)

        assert slept_ns == in_gaps_ns <= 3 * 20 * MS or account.healed
        assert account.interval_ns(IntervalKind.IDLE)[ThreadState.SLEEP] >= (3 - account.healed) * 80 * MS

    def test_open_stall_counts_up_to_the_moment_of_reading(self, account_tracer: Tracer, waits_program: Path) -> None:
        """A sleep of a minute, read while it lasts. Before it, the program may have waited for a CPU."""
        accounts.probe(account_tracer, waits_program)
        with accounts.running(waits_program, "gap", "nap", "1", "60000000"):
            read = eventually(lambda: _stalled(accounts.read(account_tracer, {}).accounts), "the nap has begun")
        accountant = Accountant()
        accountant.update(read, {1: "job"}, time.monotonic_ns())
        (thread,) = read.threads

        stalled_ns = thread.read_ns - read.feeding[1].stalled_since_ns
        assert accountant.times()[1].lost[Cause.OWN_WAIT, ""] == stalled_ns

    def test_place_is_free_after_the_process_has_ended(self, account_tracer: Tracer, waits_program: Path) -> None:
        """Otherwise the 4,096 places would run out."""
        accounts.probe(account_tracer, waits_program)
        accounts.run(account_tracer, waits_program, "gap", "nap", "1", "1000")
        account_tracer.tables.forget({1}, account_tracer.tables.read())

        assert account_tracer.kernel.maps["feeding"].get((1).to_bytes(4, "little"))[:4] == bytes(4)
        assert account_tracer.kernel.maps["groups"].get((1).to_bytes(4, "little"))[:4] == bytes(4)


def stalled_ns(account: Account) -> dict[ThreadState, int]:
    """State -> stalls, whether or not the GPU had work."""
    sums = map(int.__add__, account.feeding.dry_ns, account.feeding.late_ns)
    return {state: ns for state, ns in zip(ThreadState, sums, strict=True) if ns}


def _stalled(read: Accounts) -> Accounts | None:
    """The row of the one process, once it is stalled and dry and its thread sleeps."""
    is_asleep = [thread.state for thread in read.threads] == [ThreadState.SLEEP]
    is_stalled = [bool(row.stalled_since_ns and row.is_dry) for row in read.feeding.values()] == [True]
    return read if is_asleep and is_stalled else None
