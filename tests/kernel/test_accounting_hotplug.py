"""A CPU goes offline and online: its threads move to another one and their sums hold, and its page faults are timed again."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.kernel.abi import ThreadState
from exporter.kernel.operations import NUMBERS
from exporter.kernel.readings import Accounts
from exporter.kernel.thread_rows import ThreadRow, signed
from tests.faults.injectors import disk
from tests.support import accounts
from tests.support.hotplug import CPU, switch
from tests.support.traced import Tracer, eventually, only, tracer

pytestmark = pytest.mark.idle_machine

MS = 1_000_000
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


class TestFaults:
    """Page faults on CPU 1 after it was offline: the kernel has ended the event that times them."""

    def test_program_runs_at_major_faults_again(self, second_cpu: None) -> None:
        """1,024 of them on that CPU; other programs may have a few on the other one."""
        with tracer() as found, disk.file_of(64 << 20) as pages, counted_runs():
            switch("0")
            switch("1")
            before = runs_of_fault(found, pages)
            found.kernel.follow_cpus()
            after = runs_of_fault(found, pages)

        assert before < 100
        assert after >= 1024


@contextmanager
def counted_runs() -> Iterator[None]:
    """The kernel counts the runs of programs."""
    setting = Path("/proc/sys/kernel/bpf_stats_enabled")
    before = setting.read_text()
    setting.write_text("1")
    try:
        yield
    finally:
        setting.write_text(before)


def runs_of_fault(found: Tracer, pages: Path) -> int:
    """Runs of the program while this process reads a file from the disk, page by page, on one CPU."""

    def runs() -> int:
        fd = found.kernel.libbpf.program_fd(found.kernel.programs["fault_end"])
        lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
        return int(only(line.split()[1] for line in lines if line.startswith("run_cnt:")))

    allowed = os.sched_getaffinity(0)
    disk.forget_pages(pages)
    os.sched_setaffinity(0, {CPU})
    try:
        began_at = runs()
        with pages.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
            content.madvise(mmap.MADV_RANDOM)
            assert sum(content[at] for at in range(0, len(content), 16 * mmap.PAGESIZE)) >= 0
        return runs() - began_at
    finally:
        os.sched_setaffinity(0, allowed)
