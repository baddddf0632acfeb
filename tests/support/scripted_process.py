"""A process that makes CUDA and NCCL calls on command, one Python line at a time, while the test reads the tables."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.patience import line_of
from tests.support.traced import STANDIN_LIBRARIES, Tracer

ROOT = Path(__file__).parent.parent.parent
LENGTH = "40 * MS"
"""Length of a collective: long compared with the time that one busy CPU takes to make the next call."""

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
"""Runs Python lines with a Gpu of its own, one at a time."""


class ScriptedProcess:
    """It loads the libraries when it starts."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, *lines: str) -> None:
        """Run these lines without waiting."""
        assert self._process.stdin is not None
        for line in lines:
            self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def finish(self, count: int = 1) -> None:
        """Wait until so many lines are done."""
        for _ in range(count):
            assert line_of(self._process) == "done\n", "the process has ended"

    def __call__(self, *lines: str) -> None:
        """Run these lines."""
        self.begin(*lines)
        self.finish(len(lines))

    def value(self, expression: str) -> int:
        """What an expression is."""
        self.begin(f"print({expression}, flush=True)")
        found = int(line_of(self._process))
        self.finish()
        return found


@contextmanager
def scripted_process(libraries: Path) -> Iterator[ScriptedProcess]:
    """A process with the libraries loaded, whose collectives take 40 ms."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, libraries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        found = ScriptedProcess(process)
        found(f"gpu.nccl.standin_set_collective_ns(c_uint64({LENGTH}))")
        yield found
    finally:
        process.kill()
        process.communicate()


def attach(tracer: Tracer, libraries: Path, only: Collection[str] | None = None) -> None:
    """Probe the libraries of this folder. only: symbols to probe instead of all wanted ones."""
    for api, name in STANDIN_LIBRARIES.items():
        tracer.attach(api, libraries / name, only)
