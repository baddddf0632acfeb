"""What does the running exporter cost? Its CPU at rest, at the highest call rate and at a low one; its memory; its counting."""

from __future__ import annotations

import gzip
import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.bench.target import FUNCTIONS, Target
from tests.support import exporter_process
from tests.support.exporter_process import Exporter
from tests.support.receiver import receiver

IDLE_PROCESSES = 8
WINDOW_SECONDS = 10
SCRAPE_EVERY_SECONDS = 1.0
LOW_RATE, PACED_TARGETS = 1000, 2
SERIES_WANTED = 10_000
CROWD_SCRAPES, CROWD_SCRAPED_EVERY_SECONDS = 12, 5
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Running:
    """An exporter in a process of its own. tgid: in the PID namespace of this process."""

    exporter: Exporter
    tgid: int

    def scrape(self) -> str:
        """The text exposition, compressed on the way, as Prometheus asks for it."""
        return gzip.decompress(self.exporter.get(Accept_Encoding="gzip").body).decode()

    def cpu_seconds(self) -> float:
        """User and system time so far, ended threads included, to the nanosecond: the process's own CPU clock."""
        return time.clock_gettime((~self.tgid << 3) | 2)  # CPUCLOCK_SCHED of a process, include/linux/posix-timers.h

    def rss_mib(self) -> float:
        """Resident memory."""
        statm = Path(f"/proc/{self.tgid}/statm").read_text(encoding="ascii")
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def wait_until_attached(self) -> None:
        """Until both libraries of the bench are probed; a program that maps them must run."""
        while total_of("gpustall_exporter_attached_functions", self.scrape()) < len(FUNCTIONS):
            time.sleep(0.05)

    def cpu_share_while(self, seconds: float, scrape_every_seconds: float = SCRAPE_EVERY_SECONDS) -> float:
        """Share of a core used over a window in which it is scraped at an interval."""
        started_at, cpu_started = time.monotonic(), self.cpu_seconds()
        while (elapsed := time.monotonic() - started_at) < seconds:
            self.scrape()
            time.sleep(min(scrape_every_seconds, max(seconds - elapsed, 0)))
        return (self.cpu_seconds() - cpu_started) / (time.monotonic() - started_at)


@contextmanager
def running(*flags: str, under: Sequence[str] = ()) -> Iterator[Running]:
    """An exporter on a free port, with a history. under: a command that starts it as its only child."""
    with (
        tempfile.TemporaryDirectory() as folder,
        exporter_process.running(f"--history.path={folder}/history.sqlite", *flags, under=under) as exporter,
    ):
        tgid = exporter.process.pid
        children = Path(f"/proc/{tgid}/task/{tgid}/children").read_text(encoding="ascii")
        yield Running(exporter, int(children) if under else tgid)


def idle_share() -> float:
    """Share of a core: 8 processes that made 40 operations each, and rest; scraped every five seconds."""
    with running() as exporter, ExitStack() as targets:
        targets.enter_context(Target())
        exporter.wait_until_attached()
        for rank in range(IDLE_PROCESSES):
            targets.enter_context(Target(RANK=str(rank))).do("each 1")
        exporter.cpu_share_while(2)
        return exporter.cpu_share_while(2 * WINDOW_SECONDS, 5)


class ByRate(NamedTuple):
    """Shares of a core, and what was counted. rate: calls per second at the highest."""

    low_share: float
    high_share: float
    rate: float
    made: int
    counted: int
    losses: int


def share_by_rate() -> ByRate:
    """The exporter's CPU at LOW_RATE and at the highest rate, with equal series in both.

    Two processes call back to back for one window, against the same two calling LOW_RATE times a second together.
    """
    with running() as exporter, ExitStack() as stack:
        targets = [stack.enter_context(Target(RANK=str(rank))) for rank in range(PACED_TARGETS)]
        exporter.wait_until_attached()
        made = sum(target.do("each 1")[0] for target in targets)
        exporter.cpu_share_while(2)
        for target in targets:
            target.begin(f"paced {LOW_RATE // PACED_TARGETS} {WINDOW_SECONDS}")
        low = exporter.cpu_share_while(WINDOW_SECONDS)
        made += sum(target.result()[0] for target in targets)
        calls, elapsed_ns = targets[0].do("burst 200000")
        burst = int(calls * WINDOW_SECONDS * 1e9 / elapsed_ns)
        for target in targets:
            target.begin(f"burst {burst}")
        high = exporter.cpu_share_while(WINDOW_SECONDS * 0.8)
        results = [target.result() for target in targets]
        made += calls + sum(done for done, _ in results)
        rate = sum(done / elapsed_ns * 1e9 for done, elapsed_ns in results)
        exposition = exporter.scrape()
        return ByRate(low, high, rate, made, total_of("gpustall_cuda_operations_total", exposition), losses(exposition))


def total_of(name: str, exposition: str) -> int:
    """Sum over the series of a counter."""
    lines = (line for line in exposition.splitlines() if line.startswith((name + "{", name + " ")))
    return sum(int(float(line.rpartition(" ")[2])) for line in lines)


def value_of(name: str, exposition: str) -> float:
    """The value of a metric with one series; 0 when it is absent."""
    return next((float(line.split()[1]) for line in exposition.splitlines() if line.startswith(name + " ")), 0.0)


def losses(exposition: str) -> int:
    """Dropped records, over all programs and reasons."""
    return total_of("gpustall_exporter_losses_total", exposition)


class Crowd(NamedTuple):
    """A node full of processes, scraped as Prometheus does. ticks_ms: from the first scrape on, sorted."""

    samples: int
    rss_mib: float
    ticks_ms: list[float]
    scrape_seconds: float


def crowd(processes: int, operations: int) -> Crowd:
    """So many processes that made so many operations each, over a minute."""
    functions = FUNCTIONS[:operations]
    with running("--log.level=debug") as exporter, ExitStack() as stack:
        stack.enter_context(Target(functions))
        exporter.wait_until_attached()
        for rank in range(processes):
            stack.enter_context(Target(functions, RANK=str(rank))).do("each 1")
        exporter.scrape()
        before, durations = len(exporter.exporter.logs), []
        for _ in range(CROWD_SCRAPES):
            started_at = time.monotonic()
            samples = sum(not line.startswith("#") for line in exporter.scrape().splitlines())
            durations.append(time.monotonic() - started_at)
            time.sleep(CROWD_SCRAPED_EVERY_SECONDS)
        ticks_ms = map(float, re.findall(r"a tick took (\S+) ms", exporter.exporter.logs[before:]))
        return Crowd(samples, exporter.rss_mib(), sorted(ticks_ms), statistics.median(durations))


def rss_at_10000_samples(push_protocol: str = "") -> tuple[int, float]:
    """(samples of one scrape, MiB resident afterwards), with processes enough for 10,000 samples.

    push_protocol: push to a receiver as well; "" for scrapes only.
    """
    samples_each = len(FUNCTIONS) * 14
    with ExitStack() as targets:
        flags: list[str] = []
        if push_protocol:
            to = targets.enter_context(receiver())
            flags = [f"--otlp.endpoint={to.url}", "--otlp.interval=1s", f"--otlp.protocol={push_protocol}"]
        exporter = targets.enter_context(running(*flags))
        targets.enter_context(Target())
        exporter.wait_until_attached()
        for rank in range(SERIES_WANTED // samples_each + 1):
            targets.enter_context(Target(RANK=str(rank))).do("each 1")
        exporter.cpu_share_while(5)
        samples = sum(not line.startswith("#") for line in exporter.scrape().splitlines())
        return samples, exporter.rss_mib()
