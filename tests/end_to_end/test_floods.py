"""`run` beside a user who makes the exporter read, log and remember as much as possible: others are measured as before."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import greedy, sweep
from tests.support.exporter_process import Exporter, running
from tests.support.greedy import OTHER_USER
from tests.support.named_cgroup import hierarchies
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]
CALLS = "gpustall_cuda_operations_total"
TICKS = "gpustall_exporter_ticks_total"
SECONDS = 15
MIB = 1 << 20
PYTHON_OF_ALL_USERS = "/usr/bin/python3"
OF_THOUSANDS = "a scrape of thousands of processes that start and end takes 4 s, and 235 MiB"

ENTER_BELOW = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(1_500):
    os.makedirs("a", exist_ok=True)
    os.chdir("a")
with open("cgroup.procs", "w") as members:
    members.write(str(os.getpid()))
os.chdir("/")
os.execv(sys.argv[2], sys.argv[2:])
"""
WITH_EMPTY_VARIABLES = """
import ctypes, sys
arguments = (ctypes.c_char_p * len(sys.argv))(*(one.encode() for one in sys.argv[1:]), None)
variables = (ctypes.c_char_p * 200_001)(*[b"="] * 200_000, None)
ctypes.CDLL(None).execve(arguments[0], arguments, variables)
"""


class Seen(NamedTuple):
    """What a flood does to others."""

    longest_scrape_seconds: float
    ticks_a_second: float
    memory_bytes: int
    log_bytes_a_minute: float
    calls: float


def _memory_bytes(tgid: int) -> int:
    lines = Path(f"/proc/{tgid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


@contextmanager
def _deep(program: Path) -> Iterator[None]:
    """40 processes in a group that is 1,500 groups deep."""
    with sweep.group_tree(hierarchies()["v2"], "deep") as group, ExitStack() as stack:
        for _ in range(40):
            around = (sys.executable, "-c", ENTER_BELOW, str(group))
            stack.enter_context(greedy.running(program, "copies", "1", around=around))
        yield


@contextmanager
def _storm(program: Path) -> Iterator[None]:
    """Two programs that start processes which fail in a call, as quickly as they can."""
    stopping = threading.Event()

    def storm() -> None:
        while not stopping.is_set():
            with greedy.running(program, "callers", "2000", user=OTHER_USER):
                pass

    threads = [threading.Thread(target=storm) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


@contextmanager
def _environments(program: Path) -> Iterator[None]:
    """300 processes, each with 200,000 variables without a name."""
    with ExitStack() as stack:
        for _ in range(300):
            around = (PYTHON_OF_ALL_USERS, "-c", WITH_EMPTY_VARIABLES)
            stack.enter_context(greedy.running(program, "copies", "1", user=OTHER_USER, around=around))
        yield


def _beside(flood: Callable[[Path], AbstractContextManager[None]], exporter: Exporter, program: Path) -> Seen:
    """Another user's job makes 23 calls while it goes on."""
    longest_scrape = memory = 0.0
    with flood(program):
        log_before, began, ticks_before = len(exporter.logs), time.monotonic(), exporter.scrape().total(TICKS)
        with greedy.running(program, "allocations", "23", rank=0):
            while time.monotonic() < began + SECONDS:
                before = time.monotonic()
                scrape = exporter.scrape()
                longest_scrape = max(longest_scrape, time.monotonic() - before)
                memory = max(memory, _memory_bytes(exporter.process.pid))
                time.sleep(0.2)
            ticks_a_second = (scrape.total(TICKS) - ticks_before) / (time.monotonic() - began)
            log_bytes = len(exporter.logs) - log_before
            eventually(
                lambda: exporter.scrape().total(CALLS, operation="cudaMalloc", rank="0") >= 23, "the job is exported"
            )
            calls = exporter.scrape().total(CALLS, operation="cudaMalloc", rank="0")
    return Seen(longest_scrape, ticks_a_second, int(memory), log_bytes * 60 / SECONDS, calls)


@pytest.mark.parametrize(
    "flood",
    [
        pytest.param(_deep, id="deep"),
        pytest.param(_storm, id="storm", marks=pytest.mark.xfail(strict=True, reason=OF_THOUSANDS)),
        pytest.param(_environments, id="environments"),
    ],
)
def test_others_are_measured_as_before(flood: Callable[[Path], AbstractContextManager[None]]) -> None:
    """Their counts are exact, a scrape takes a second at most, ticks go on, and neither memory nor log grows beyond its bound."""
    need_tracing()
    with greedy.compiled_with_libraries() as program, running() as exporter, greedy.running(program):
        eventually(lambda: exporter.logs.count(f"attached to {program.parent}/") == 2, "both libraries are probed")
        seen = _beside(flood, exporter, program)
        print(f"\n{flood.__name__}: {seen}")

    assert seen.calls == 23
    assert seen.longest_scrape_seconds <= 1
    assert seen.ticks_a_second >= 1
    assert seen.memory_bytes <= 128 * MIB
    assert seen.log_bytes_a_minute <= MIB
