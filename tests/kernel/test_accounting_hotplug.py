"""A CPU goes offline and online: its threads move to another one and their sums hold.

The affinity of every program pinned to that CPU is lost, so no other test may run at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.kernel.abi import ThreadState
from exporter.kernel.operations import NUMBERS
from exporter.kernel.readings import Accounts
from exporter.kernel.thread_rows import ThreadRow, signed
from tests.faults.injectors import NotPossible, cgroups
from tests.support import accounts
from tests.support.traced import Tracer, eventually, only, tracer

pytestmark = pytest.mark.idle_machine

MS = 1_000_000
CPU = 1
ONLINE = Path(f"/sys/devices/system/cpu/cpu{CPU}/online")
ROUNDS = 5
NAP_US, SPIN_US = 5_000, 20_000
FOR_EVER = "1000000"


class Reading(NamedTuple):
    """healed: missed switches that had been healed when the reading began."""

    healed: int
    accounts: Accounts


class Seen(NamedTuple):
    """All readings in order; the last one after the programs have ended. waiters: of each CPU, at the last reading."""

    readings: list[Reading]
    spinner: int
    napper: int
    waiters: list[int]


def switch(state: str) -> None:
    """0: offline; 1: online. Returns when it is done."""
    try:
        ONLINE.write_text(state)
    except OSError as error:
        pytest.skip(f"needs a CPU that can be switched off: {state} to {ONLINE}: {error.strerror}")


@pytest.fixture(scope="module")
def second_cpu() -> Iterator[None]:
    """A CPU that can go offline; it is online again at the end."""
    if not ONLINE.exists():
        pytest.skip(f"needs a CPU that can be switched off: there is no {ONLINE}")
    if (groups := _groups_of_cpus()) is not None:
        pytest.skip(f"{groups} is a cpuset of cgroup v1: it would lose the CPU for good")
    try:
        yield
    finally:
        ONLINE.write_text("1")
        assert ONLINE.read_text().strip() == "1"


def _groups_of_cpus() -> Path | None:
    try:
        root, version = cgroups.hierarchy("cpuset")
    except NotPossible:
        return None
    return next((path for path in root.iterdir() if path.is_dir()), None) if version == 1 else None


@pytest.fixture(scope="module")
def seen(second_cpu: None, waits_program: Path) -> Iterator[Seen]:
    """A spinning and a sleeping program on the CPU that goes offline, beside a hog: read before and after each change."""
    spin, nap = (("call", way, FOR_EVER, str(us)) for way, us in (("spin", SPIN_US), ("nap", NAP_US)))
    with tracer() as found:
        accounts.probe(found, waits_program)
        with (
            accounts.hogs(1, cpu=CPU) as hogs,
            accounts.running(waits_program, *spin) as spinner,
            accounts.running(waits_program, *nap) as napper,
        ):
            tgids = [*hogs, spinner.pid, napper.pid]
            eventually(lambda: len(read(found).accounts.threads) == 2, "both programs are traced")
            readings = []
            for _ in range(ROUNDS):
                for tgid in tgids:  # threads that were moved away may run anywhere
                    os.sched_setaffinity(tgid, {CPU})
                for state in ("0", "1"):
                    readings.append(after(found, spinner.pid, 50 * MS))
                    switch(state)
                    readings.append(read(found))
            numbers = {row.tgid: number for number, row in found.tables.read_processes().items()}
        readings.append(read(found))
        waiters = [int.from_bytes(value[:4], "little") for _, value in found.kernel.maps["cpu_runs"].items()]
        yield Seen(readings, numbers[spinner.pid], numbers[napper.pid], waiters)


def read(found: Tracer) -> Reading:
    """The tables now."""
    return Reading(found.tables.healed(), accounts.read(found, {}).accounts)


def thread_of(reading: Reading, tgid: int) -> ThreadRow:
    """The one thread of a program."""
    thread: ThreadRow = only(thread for thread in reading.accounts.threads if thread.tgid == tgid)
    return thread


def after(found: Tracer, tgid: int, ns: int) -> Reading:
    """A reading in which a thread has had this much more CPU time than now."""
    until_ns = thread_of(read(found), tgid).booked_ns[ThreadState.ON_CPU] + ns

    def reached() -> Reading | None:
        reading = read(found)
        return reading if thread_of(reading, tgid).booked_ns[ThreadState.ON_CPU] >= until_ns else None

    reading: Reading = eventually(reached, f"{tgid} had a CPU for {ns} ns")
    return reading


class TestHotplug:
    """CPU 1 goes offline and online five times."""

    def test_states_add_up_to_the_elapsed_time(self, seen: Seen) -> None:
        """For both threads, from their first to their last reading, within 0.2 %."""
        first, *_, last, _ended = seen.readings
        for earlier, later in zip(by_process(first), by_process(last), strict=True):
            booked_ns = sum(later.booked_ns) - sum(earlier.booked_ns)

            assert booked_ns == pytest.approx(later.read_ns - earlier.read_ns, rel=0.002)

    def test_booked_time_never_decreases(self, seen: Seen) -> None:
        """The time of calls and of threads never decreases between two readings.

        A single state of a call may decrease only if a missed switch is healed: at most one state for each.
        """
        decreased = 0
        for earlier, later in pairwise(seen.readings):
            for key, row in earlier.accounts.operations.items():
                states_ns = later.accounts.operations[key].states_ns
                assert whole_ns(states_ns) >= whole_ns(row.states_ns)
                decreased += sum(now < before for before, now in zip(row.states_ns, states_ns, strict=True))
            for before, now in zip(by_process(earlier), by_process(later), strict=False):
                assert sum(now.booked_ns) >= sum(before.booked_ns)

        assert decreased <= seen.readings[-1].healed - seen.readings[0].healed

    def test_thread_that_spins_never_sleeps(self, seen: Seen) -> None:
        """A move to another CPU is no sleep."""
        states_ns = calls_ns(seen, seen.spinner)

        assert sum(states_ns) - states_ns[ThreadState.ON_CPU] - states_ns[ThreadState.RUNNABLE] < 0.002 * sum(states_ns)

    def test_sleeping_thread_is_asleep_for_as_long(self, seen: Seen) -> None:
        """5 ms in each call that returned, whichever CPU its timer moved to."""
        reading = seen.readings[-1]
        nap = NUMBERS["cudaEventRecord"]
        row = only(row for key, row in reading.accounts.operations.items() if key[:2] == (seen.napper, nap))

        assert row.timed > 0
        assert row.states_ns[ThreadState.SLEEP] >= row.timed * NAP_US * 1000

    def test_no_waiter_is_left_for_either_cpu(self, seen: Seen) -> None:
        """All programs have ended."""
        assert seen.waiters == [0] * len(seen.waiters)


def by_process(reading: Reading) -> list[ThreadRow]:
    """The living threads, one a process, in the order of their processes."""
    return sorted(reading.accounts.threads, key=lambda thread: thread.process)


def whole_ns(states_ns: Sequence[int]) -> int:
    """In all states."""
    return sum(signed(ns) for ns in states_ns)


def calls_ns(seen: Seen, process: int) -> list[int]:
    """Nanoseconds by state, in all calls of a process that returned."""
    rows = (row.states_ns for key, row in seen.readings[-1].accounts.operations.items() if key.process == process)
    return [sum(column) for column in zip(*rows, strict=True)]
