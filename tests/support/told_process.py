"""A process that makes CUDA's and NCCL's calls when told to, one Python line at a time, while the tables are read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.traced import STANDIN_LIBRARIES, Tracer

ROOT = Path(__file__).parent.parent.parent
LENGTH = "40 * MS"
"""Of a collective: long beside what a computer with one busy CPU takes to make the next call."""

PROGRAM = """
import sys, time
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path
from tests.support.standin_gpu import MS, Gpu, UniqueId

gpu = Gpu(Path(sys.argv[1]))
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
"""Carries out Python lines with a Gpu of its own, one at a time."""


class ToldProcess:
    """The process; it loads the libraries when it starts."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, *lines: str) -> None:
        """Do these, and do not wait."""
        assert self._process.stdin is not None
        for line in lines:
            self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def finish(self, count: int = 1) -> None:
        """Until so many lines are done."""
        assert self._process.stdout is not None
        for _ in range(count):
            assert self._process.stdout.readline() == "done\n", "the process has ended"

    def __call__(self, *lines: str) -> None:
        """Do these."""
        self.begin(*lines)
        self.finish(len(lines))


@contextmanager
def told_process(libraries: Path) -> Iterator[ToldProcess]:
    """A process with the libraries loaded, and 40 ms to each collective."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, libraries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        found = ToldProcess(process)
        found(f"gpu.nccl.standin_set_collective_ns(c_uint64({LENGTH}))")
        yield found
    finally:
        process.kill()
        process.communicate()


def attach(tracer: Tracer, libraries: Path, only: Collection[str] | None = None) -> None:
    """Probe the libraries that it loads from this folder. only: symbols to probe, instead of all that are wanted."""
    for api, name in STANDIN_LIBRARIES.items():
        tracer.attach(api, libraries / name, only)
