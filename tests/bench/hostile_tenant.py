"""An ordinary user does all that is known against an exporter at once, beside a victim's job and a scraper.

`python -m tests.bench.hostile_tenant [SECONDS]`, as root: prints what the scraper and the victim see, a line for each figure.
The user has the uid 65534, and nothing but its own processes and files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import gpustall_standin as standin
from tests.faults.injectors import disk
from tests.support import crowds, greedy, held_calls
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import fresh_rank
from tests.support.priority import high_priority
from tests.support.silent_files import served
from tests.support.traced import STANDIN_LIBRARIES, eventually

SECONDS = 60.0
FILES = 3_000
BRIEF_PROCESSES = 300
GROUPS = 3_000
USER = greedy.OTHER_USER
ORDERS = {
    "communicators": 20_000,
    "allocations": 300_000,
    "errors": 60_000,
    "frontiers": 80_000,
    "graphs": 70_000,
    "pinned": 30_000,
}
FAULT_STEPS = (3_000, 3_500)
"""Steps take 14 ms: all attacks go on by then."""
OPERATIONS = "gpustall_cuda_operations_total"
MAP_ALL = """
import ctypes, mmap, os, sys, time
for name in sorted(os.listdir(sys.argv[1])):
    file = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
    mapped = mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    sys.modules[name] = mapped
    os.close(file)
time.sleep(3600)
"""
REMAP = """
import mmap, os, sys
pages = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ | (i % 2 and mmap.PROT_WRITE)) for i in range(60000)]
file = os.open(sys.argv[1], os.O_RDONLY)
while True:
    mmap.mmap(file, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
"""


class Scraper(threading.Thread):
    """Scrapes four times a second."""

    def __init__(self, exporter: Exporter) -> None:
        super().__init__(daemon=True)
        self._exporter = exporter
        self.is_over = threading.Event()
        self.longest_scrape_seconds = self.longest_gap_seconds = 0.0
        self.page_bytes = self.rss_bytes = self.whole_bytes = 0

    def run(self) -> None:
        ticks, changed_at = -1.0, time.monotonic()
        while not self.is_over.wait(0.05):
            started_at = time.monotonic()
            body = self._exporter.get().body
            now = time.monotonic()
            self.longest_scrape_seconds = max(self.longest_scrape_seconds, now - started_at)
            self.page_bytes = max(self.page_bytes, len(body))
            found = _value(body, b"gpustall_exporter_ticks_total")
            if found != ticks:
                ticks, changed_at = found, now
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - changed_at)
            self.rss_bytes = max(self.rss_bytes, _rss_bytes(self._exporter.process.pid))
            processes = [self._exporter.process.pid, *_children(self._exporter.process.pid)]
            self.whole_bytes = max(self.whole_bytes, sum(map(_own_share_bytes, processes)))


def _value(body: bytes, name: bytes) -> float:
    return next((float(line.split()[1]) for line in body.splitlines() if line.startswith(name + b" ")), -1.0)


def _rss_bytes(tgid: int) -> int:
    try:
        return int(Path(f"/proc/{tgid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _own_share_bytes(tgid: int) -> int:
    """What it would take alone, with its part of pages that it shares with others."""
    try:
        lines = Path(f"/proc/{tgid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:")), 0)


def _children(tgid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{tgid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            found += [int(one) for one in (task / "children").read_text().split()]
    return found


def _available_bytes() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10


@contextmanager
def _as_user(*command: str) -> Iterator[None]:
    process = subprocess.Popen(
        command, user=USER, group=USER, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _attacks(exporter: Exporter, folder: Path, program: Path, victim_rank: int) -> Iterator[None]:
    libraries = folder / "hostile"
    libraries.mkdir()
    for number in range(FILES):
        shutil.copy(standin.build_dir() / "libcudart.so.12", libraries / f"libcudart.so.{number}")
    source = folder / "source"
    source.mkdir()
    for name in STANDIN_LIBRARIES.values():
        shutil.copy(standin.build_dir() / name, source)
    with ExitStack() as attacks:
        python = "/usr/bin/python3"  # any user may run it
        # The tables first: the files leave the user no time for looks at its own libraries.
        attacks.enter_context(greedy.running(program, "copies", "1", user=USER))
        eventually(lambda: f"attached to {program.parent}/libnccl" in exporter.logs, "its libraries are probed")
        for order, count in ORDERS.items():
            attacks.enter_context(greedy.running(program, order, str(count), user=USER))
        attacks.enter_context(greedy.running(program, "huge", "1", user=USER, rank=victim_rank))
        for rank in range(BRIEF_PROCESSES):
            with greedy.running(program, "errors", "999", user=USER, rank=rank):
                pass
        device = attacks.enter_context(disk.loop_device(1 << 20))
        groups = attacks.enter_context(crowds.crowd("blkio", "greedy", USER))
        attacks.enter_context(groups.acting("reads", device, groups=GROUPS, times=1))
        files = attacks.enter_context(served(folder / "mounted", source, USER))
        attacks.enter_context(held_calls.held_calls(libraries=folder / "mounted", user=USER, group=USER))
        files.fall_silent()
        attacks.enter_context(_as_user(python, "-c", MAP_ALL, str(libraries)))
        attacks.enter_context(_as_user(python, "-c", REMAP, str(libraries / "libcudart.so.0")))
        yield


@contextmanager
def _victim_with_a_fault() -> Iterator[int]:
    """The process id of a job whose priority is the highest, so that no attacker slows it down: all that is wrong is a lock."""
    fault = (
        "--fault=lock",
        f"--fault-from-step={FAULT_STEPS[0]}",
        f"--fault-to-step={FAULT_STEPS[1]}",
        "--fault-us=20000",
    )
    command = standin.trainer_command("--ranks=1", "--sync=block", "--quiet", "--evaluate-every=0", *fault)
    with high_priority():
        process = subprocess.Popen(command, env=standin.environment())
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        yield int(eventually(lambda: children.read_text().split(), "its rank runs")[0])
    finally:
        process.kill()
        process.wait()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with ExitStack() as stack:
        trainer_pid = stack.enter_context(_victim_with_a_fault())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        program = stack.enter_context(greedy.compiled_with_libraries())
        victim = folder / "victim"
        victim.mkdir()
        for name in STANDIN_LIBRARIES.values():
            shutil.copy(standin.build_dir() / name, victim)
        available_bytes = _available_bytes()
        exporter = stack.enter_context(running("--series.ttl=15m"))
        scraper = Scraper(exporter)
        scraper.start()
        started_at = time.monotonic()
        ranks = [fresh_rank(), fresh_rank()]
        before = stack.enter_context(held_calls.held_calls("cudaEventRecord:23", rank=ranks[0], libraries=victim))
        stack.enter_context(_attacks(exporter, folder, program, int(ranks[0])))
        after = stack.enter_context(held_calls.held_calls("cudaEventRecord:23", rank=ranks[1], libraries=victim))
        time.sleep(max(seconds - (time.monotonic() - started_at), 5.0))
        before.make()
        after.make()
        time.sleep(2.0)
        scrape = exporter.scrape()
        scraper.is_over.set()
        scraper.join()
        counts = [scrape.total(OPERATIONS, rank=rank, operation="cudaEventRecord") for rank in ranks]
        print(f"victim's calls of 23: started before {counts[0]:.0f}, started after {counts[1]:.0f}")
        print(f"longest gap of ticks {scraper.longest_gap_seconds:.2f} s")
        print(f"longest scrape {scraper.longest_scrape_seconds:.2f} s, page {scraper.page_bytes / 1e6:.2f} MB")
        print(
            f"RSS {scraper.rss_bytes / 2**20:.0f} MiB, with its readers {scraper.whole_bytes / 2**20:.0f} MiB,"
            " pages that they share counted once"
        )
        print(
            f"memory of the node taken {(available_bytes - _available_bytes()) / 2**20:.0f} MiB, the attackers' included"
        )
        opened = re.findall(rf'msg="chain opened: (\w+): .* pid={trainer_pid} ', exporter.logs)
        print(f"chains of a victim with a lock that is held for 20 ms a step: {', '.join(opened)}")
        print("failures", scrape.by("reason", "gpustall_exporter_attach_failures_total"))
        print(
            "refused",
            {key: value for key, value in scrape.by("resource", "gpustall_exporter_refused_total").items() if value},
        )
        cpu = _value(exporter.get().body, b"process_cpu_seconds_total")
        print(f"CPU of the exporter {100 * cpu / (time.monotonic() - started_at):.1f} %")


if __name__ == "__main__":
    main()
