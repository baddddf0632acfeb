"""A shape's program while it runs: its step log, its fault file, its end at SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.faults.shapes.shape import InsideFault, Shape, environment, ready
from tests.support.standin_gpu import built

_POLL_SECONDS = 0.02


class LoggedStep(NamedTuple):
    """A line of a step log; CLOCK_MONOTONIC."""

    rank: int
    step: int
    tgid: int
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return (self.end_ns - self.start_ns) / 1e9


def read_log(path: Path) -> list[LoggedStep]:
    """All whole lines of a step log, in the order of their end; none while there is no file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii").rpartition("\n")[0].splitlines()
    return [LoggedStep(**json.loads(line)) for line in lines]


@dataclass(frozen=True)
class Running:
    """A program that runs. folder: of its step log, its fault file and what it writes."""

    shape: Shape
    process: subprocess.Popen[bytes]
    folder: Path

    def steps(self) -> list[LoggedStep]:
        """All steps so far."""
        return read_log(self.folder / "steps.jsonl")

    def wait_for_steps(self, count: int, patience_seconds: float = 60.0) -> None:
        """Returns when rank 0 has logged so many. Raises RuntimeError when it ends before, TimeoutError after patience."""
        until = time.monotonic() + patience_seconds
        while sum(step.rank == 0 for step in self.steps()) < count:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.shape.name} ended with code {self.process.returncode}:\n{self.said()}")
            if time.monotonic() > until:
                raise TimeoutError(f"{self.shape.name} has not made {count} steps:\n{self.said()}")
            time.sleep(_POLL_SECONDS)

    def said(self) -> str:
        """What it printed."""
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")

    @contextmanager
    def fault(self, kind: InsideFault, share: float, rank: int = 0) -> Iterator[None]:
        """The fault is on while the block lasts."""
        path = self.folder / "fault.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"kind": kind, "share": share, "rank": rank}), encoding="ascii")
        fresh.replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def stop(self) -> float:
        """SIGTERM; returns the seconds until it has ended with code 0. Raises RuntimeError for another one."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(10)
        if code != 0:
            raise RuntimeError(f"{self.shape.name} ended with code {code}:\n{self.said()}")
        return time.monotonic() - start


@contextmanager
def running(
    shape: Shape,
    folder: Path,
    *,
    libraries: Path | None = None,
    seed: int = 1,
    before: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    output: int | None = None,
) -> Iterator[Running]:
    """Start a shape's program; it is killed with the block, and all that it has started.

    folder: empty. libraries: the stand-in's. before: the beginning of the command line. variables: of its environment, besides.
    output: where it writes; None for a file in the folder. Raises NotPossible.
    """
    libraries = libraries or built()
    ready(shape)
    with (folder / "output.txt").open("wb") as said:
        process = subprocess.Popen(
            [*before, *shape.command],
            env=environment(folder, libraries, seed) | dict(variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=said if output is None else output,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield Running(shape, process, folder)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
