"""Switches that the scheduler's programs have not seen. The kernel leaves out a run now and then; here they are detached."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from exporter.kernel.abi import ThreadState
from exporter.kernel.loader import attach_fixed
from exporter.kernel.thread_rows import ThreadRow
from tests.support import accounts
from tests.support.traced import Tracer, eventually, only

MS = 1_000_000


class TestMissedSwitchIn:
    """A thread that is stopped, goes on and waits beside a hog while nothing is seen, and computes when all is seen again."""

    def test_states_are_the_time_that_has_passed(self, account_tracer: Tracer, waits_program: Path, cpu: int) -> None:
        """To the nanosecond; what it waited for a CPU is what the kernel counts, as far as nothing was seen."""
        accounts.probe(account_tracer, waits_program)
        kernel, healed = account_tracer.kernel, account_tracer.tables.healed()
        with accounts.running("taskset", "-c", str(cpu), waits_program, "call", "spin", "1000", "60000") as process:
            eventually(account_tracer.tables.read_threads, "it makes calls")
            before = _stopped(account_tracer, process.pid)
            kernel.detach()
            with accounts.hogs(1, cpu):
                os.kill(process.pid, signal.SIGCONT)
                wanted_ns = accounts.run_delay_ns(process.pid) + 200 * MS
                eventually(lambda: accounts.run_delay_ns(process.pid) > wanted_ns, "it has waited for 200 ms")
            attach_fixed(kernel)
            after = _stopped(account_tracer, process.pid)
            waited_ns = after.booked_ns[ThreadState.RUNNABLE] - before.booked_ns[ThreadState.RUNNABLE]

        assert account_tracer.tables.healed() > healed
        assert sum(after.booked_ns) - sum(before.booked_ns) == after.read_ns - before.read_ns
        assert waited_ns >= after.run_delay_ns - before.run_delay_ns - MS


def _stopped(tracer: Tracer, tgid: int) -> ThreadRow:
    """The row of the one thread when a signal has stopped it."""
    os.kill(tgid, signal.SIGSTOP)
    eventually(lambda: "\nState:\tT" in Path(f"/proc/{tgid}/status").read_text(), "it is stopped")

    def seen() -> ThreadRow | None:
        row = only(tracer.tables.read_threads())
        return row if row.state == ThreadState.STOPPED else None

    row: ThreadRow = eventually(seen, "the programs have seen it")
    return row
