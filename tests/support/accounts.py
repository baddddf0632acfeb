"""Programs with known waits, probed on functions of their own, so that no other process is traced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from exporter.kernel.abi import Api, Culprit, IntervalKind, ThreadState, Victim
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.readings import Accounts
from exporter.kernel.thread_rows import Exposure, FeedingRow, WakeupRow, signed
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import Tracer, eventually

FUNCTIONS = ("cudaEventRecord", "cudaStreamSynchronize", "cudaLaunchKernel")


def compiled(source: Path, folder: Path) -> Path:
    """Compiles a program with its own inode, which exports the functions it is probed on."""
    program = folder / source.stem
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-rdynamic", "-pthread", source, "-o", program], check=True)
    return program


UNASKED = frozenset(
    (ThreadState.ON_CPU, ThreadState.RUNNABLE, ThreadState.FAULT, ThreadState.MEMORY, ThreadState.RECLAIM)
)
"""States that a busy machine adds to those of the program's own system calls."""


@dataclass
class Account:
    """One program: `truth` from its own output, the rest from the maps. read_ns: CLOCK_MONOTONIC after its end."""

    truth: dict[str, Any]
    accounts: Accounts
    healed: int
    read_ns: int

    def call_ns(self, operation: str) -> dict[ThreadState, int]:
        """State -> nanoseconds in calls of an operation."""
        found: dict[ThreadState, int] = {}
        for key, row in self.accounts.operations.items():
            if OPERATIONS[key.operation].name == operation:
                _add(found, row.states_ns)
        return found

    def interval_ns(self, *kinds: IntervalKind) -> dict[ThreadState, int]:
        """State -> nanoseconds outside calls, of threads that have ended."""
        found: dict[ThreadState, int] = {}
        for key, row in self.accounts.intervals.items():
            if key.kind in kinds:
                _add(found, row.states_ns)
        return found

    def booked_ns(self) -> dict[ThreadState, int]:
        """State -> nanoseconds of ended threads, in calls and outside."""
        found: dict[ThreadState, int] = {}
        for row in (*self.accounts.operations.values(), *self.accounts.intervals.values()):
            _add(found, row.states_ns)
        return found

    def waited_ns(self) -> int:
        """The part of it that is waits for a CPU. Charges add up to them."""
        return self.booked_ns().get(ThreadState.RUNNABLE, 0)

    def exposure(self, operation: str) -> Exposure:
        """All waits of the operation, after any work."""
        rows = (row for key, row in self.accounts.exposures.items() if OPERATIONS[key.operation].name == operation)
        return Exposure(*map(sum, zip(*rows, strict=True)))

    def switches(self) -> tuple[int, int]:
        """Voluntary and involuntary switches of ended threads."""
        rows = [row for key, row in self.accounts.intervals.items() if key.kind is IntervalKind.GAP]
        return sum(row.voluntary for row in rows), sum(row.involuntary for row in rows)

    def blame_ns(self, *victims: Victim) -> dict[tuple[Culprit, bytes], int]:
        """(kind, comm) -> nanoseconds that victims of these kinds, or any, waited for them."""
        found: dict[tuple[Culprit, bytes], int] = {}
        for key, ns in self.accounts.blame.items():
            if not victims or key.victim in victims:
                found[key.culprit, key.comm] = found.get((key.culprit, key.comm), 0) + ns
        return found

    def blame_by_tgid_ns(self) -> dict[int, int]:
        """tgid in the machine's pid namespace -> nanoseconds."""
        found: dict[int, int] = {}
        for key, ns in self.accounts.blame.items():
            found[key.tgid] = found.get(key.tgid, 0) + ns
        return found

    def wakeup_row(self, state: ThreadState) -> WakeupRow:
        """Sleeps of step threads in a state, for all wakers."""
        rows = (row for key, row in self.accounts.wakeups.items() if (key.victim, key.state) == (Victim.STEP, state))
        return reduce(WakeupRow.plus, rows)

    @property
    def feeding(self) -> FeedingRow:
        """The timeline of the one process."""
        (row,) = self.accounts.feeding.values()
        return row


def _add(found: dict[ThreadState, int], states_ns: Sequence[int]) -> None:
    for state, ns in zip(ThreadState, states_ns, strict=True):
        if ns:
            found[state] = found.get(state, 0) + signed(ns)


def share(states_ns: dict[ThreadState, int], *states: ThreadState) -> float:
    """Share of these states in the sum."""
    return sum(states_ns.get(state, 0) for state in states) / sum(states_ns.values())


def probe(tracer: Tracer, program: Path) -> None:
    """Attach to the functions a program exports."""
    tracer.attach(Api.RUNTIME, program, FUNCTIONS)


def run(tracer: Tracer, *command: str | Path, environment: dict[str, str] | None = None) -> Account:
    """Run a program until it exits or is killed, and read the maps."""
    done = subprocess.run(
        command,
        check=False,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
    )
    assert done.returncode in {0, -9}, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return read(tracer, json.loads(lines[-1]) if lines else {})


@contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A program beside the test, killed at the end of the block with its children, which may be in its control group."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def read(tracer: Tracer, truth: dict[str, Any]) -> Account:
    """Read the maps now."""
    read_ns = time.monotonic_ns()
    accounts = tracer.tables.read_accounts(tracer.tables.read_processes())
    return Account(truth, accounts, tracer.tables.healed(), read_ns)


def hogs(count: int, cpu: int) -> AbstractContextManager[list[int]]:
    """Shells that only use a CPU, see named_hogs()."""
    return named_hogs(["sh"] * count, cpu)


@contextmanager
def named_hogs(names: Sequence[str], cpu: int) -> Iterator[list[int]]:
    """tgids of processes with these names that only use a CPU. They are running when the block begins."""
    spin = "printf %s $0 >/proc/$$/comm; while :; do :; done"
    started = [subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", spin, name]) for name in names]
    try:
        for one in started:
            eventually(lambda one=one: _used_ticks(one.pid) > 0, "the hog runs")
        yield [one.pid for one in started]
    finally:
        for one in started:
            one.kill()
        for one in started:
            one.wait()


def run_delay_ns(tgid: int) -> int:
    """How long a process of one thread has waited for a CPU, as the scheduler counts it."""
    return int(Path(f"/proc/{tgid}/schedstat").read_text(encoding="ascii").split()[1])


def _used_ticks(tgid: int) -> int:
    fields = Path(f"/proc/{tgid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
