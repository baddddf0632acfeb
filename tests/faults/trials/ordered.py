"""Programs of the rig that take orders: a line on standard input, echoed once it holds. They end with the block."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.injectors import NotPossible

PROGRAMS = Path(__file__).with_name("programs")
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Ordered:
    """A program that runs. said: its first line."""

    process: subprocess.Popen[str]
    said: str

    @contextmanager
    def order(self, line: str) -> Iterator[None]:
        """Holds within the block; 0 after it."""
        self._give(line)
        try:
            yield
        finally:
            self._give("0")

    def _give(self, line: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != line + "\n":
            raise NotPossible(f"a program of the rig did not take {line!r}")


@contextmanager
def ordered(program: str, *arguments: str) -> Iterator[Ordered]:
    """program: a file of programs/, which prints a line when it is ready."""
    line = [sys.executable, "-S", str(PROGRAMS / program), *arguments]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = process.stdout.readline().strip()
            if not said:
                assert process.stderr is not None
                raise NotPossible(f"{program} did not start: {process.stderr.read().strip()[-200:]}")
            yield Ordered(process, said)
        finally:
            process.stdin.close()  # it undoes what it did
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
