"""tests/kernel/python_target.py under any CPython: a program whose threads are in traced calls, and frames that are read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exporter.host.interpreters import Interpreters
from exporter.host.processes import Processes
from exporter.kernel.abi import Api
from exporter.kernel.python_frames import PythonFrames
from exporter.python.call_site import CallStack, PythonFrame
from exporter.stacks.python_stacks import READABLE, RETRIES_MAX, RETRY_NS, PythonStacks
from exporter.stacks.python_tasks import PythonTasks
from tests.support.interpreters import ROOT, of_version
from tests.support.priority import high_priority
from tests.support.traced import Tracer

TARGET = ROOT / "tests" / "kernel" / "python_target.py"
SOURCE = ROOT / "tests" / "kernel" / "held.c"
PROBED = ("cudaStreamSynchronize", "cudaLaunchKernel", "cudaMalloc")


def build_library(folder: Path) -> Path:
    """The library that the programs call."""
    path = folder / "libheld.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread", SOURCE, "-o", path], check=True)
    return path


def probe(tracer: Tracer, library: Path) -> None:
    """Probes on the library."""
    tracer.attach(Api.RUNTIME, library, PROBED)


@dataclass
class Target:
    """A running program. results: of its interpreters. task_results: of stacks whose tasks were read."""

    process: subprocess.Popen[str]
    stacks: PythonStacks
    frames: PythonFrames
    tasks: PythonTasks
    results: list[str] = field(default_factory=list)
    task_results: list[str] = field(default_factory=list)

    @property
    def tgid(self) -> int:
        return self.process.pid

    def ask(self, command: str) -> Any:
        """Its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def prepare(self) -> None:
        """Find its interpreter, as often as the exporter tries: a process that runs changes while it is read."""
        for number in range(RETRIES_MAX):
            self.stacks.prepare(self.tgid, number * RETRY_NS)
        assert self.results == [READABLE]

    def is_at_rest(self, tid: int) -> bool:
        """Whether a thread of Python sleeps outside of calls."""
        stack = self.stacks.of_thread(self.tgid, tid)
        return stack is not None and not stack.is_outer


@contextmanager
def running(traced: Tracer, library: Path, version: str, *, is_urgent: bool = False) -> Iterator[Target]:
    """The program under an interpreter of this version.

    is_urgent: a call that is fast does not become slow because another process has the CPU. Not for threads that run for ever.
    """
    _, python = of_version(version)
    with high_priority() if is_urgent else nullcontext():
        process = subprocess.Popen(
            [python, "-I", TARGET, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    frames, processes = PythonFrames(traced.kernel), Processes()
    results: list[str] = []
    task_results: list[str] = []
    interpreters = Interpreters(processes)
    stacks = PythonStacks(frames, interpreters.examine, processes.start_time_ticks, results.append)
    tasks = PythonTasks(frames, stacks, interpreters.asyncio_sections, _shown, task_results.append)
    try:
        yield Target(process, stacks, frames, tasks, results, task_results)
    finally:
        process.kill()
        process.communicate()


def _shown(_tgid: int, frames: tuple[PythonFrame, ...]) -> CallStack:
    return CallStack("", frames)


def as_reported(frames: Sequence[PythonFrame]) -> list[list[Any]]:
    """As the program describes its own."""
    return [[frame.file, frame.function, frame.line] for frame in frames]
