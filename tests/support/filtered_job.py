"""A job under a strict seccomp filter: tests/kernel/filtered.c, and commands to it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

FUNCTIONS = ("cudaEventRecord", "cudaEventQuery", "cudaLaunchKernel", "cudaStreamSynchronize")


@dataclass
class FilteredJob:
    """The running program. It calls each of FUNCTIONS in turn."""

    process: subprocess.Popen[str]

    def begin(self, command: str | int) -> None:
        """Send a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def finish(self) -> bool:
        """Wait for the answer; False when the job has ended instead."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "done\n"

    def do(self, command: str | int) -> bool:
        """Send a command, and wait for the answer."""
        self.begin(command)
        return self.finish()

    def end(self) -> int:
        """Let it end. Returns its exit code, negative for the signal that killed it."""
        self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode


@contextmanager
def filtered_job(program: Path) -> Iterator[FilteredJob]:
    """A job without a filter yet: the command `f` sets it. Killed when the block is left."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield FilteredJob(process)
    finally:
        with process:
            process.kill()
