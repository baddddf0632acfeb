"""The stand-in job of a scenario, and those who disturb it. All of it ends with the block.

In: a Scenario, and how long its three parts last. Out: a Stage that knows how far the job has come.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from exporter import standin
from exporter.demo.scenarios import Neighbours, Scenario
from exporter.errors import NotPossibleHere
from exporter.units import seconds

NEIGHBOUR = "noisy-neighbour"
"""At most fifteen characters, which is what the kernel keeps of a name."""
_PER_CPU = 2
_PULSE_SECONDS, _PULSE_EVERY_SECONDS = 1.0, 3.0
# A shell that looks now and then whether the one who started it is still there.
SPIN = 'while kill -0 "$1" 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done'
_RECENT_STEPS = 50
_LOOK_SECONDS = 0.05


class Parts(NamedTuple):
    """How long, in seconds: the job as usual, with the fault, and without it again."""

    before: float
    fault: float
    after: float

    @classmethod
    def of(cls, scenario: Scenario, duration_seconds: float) -> Parts:
        """Of so long in all. Eight seconds are needed to know what is usual, and six until something is over."""
        if scenario.is_first:
            return cls(0.0, duration_seconds / 4, duration_seconds * 3 / 4)
        before, after = 0.36 * duration_seconds, 0.0 if scenario.is_last else 0.28 * duration_seconds
        return cls(before, duration_seconds - before - after, after)


class Progress(NamedTuple):
    """At a moment. step_seconds: the median of the last steps; None while there are none."""

    elapsed_seconds: float
    is_faulty: bool
    steps: int
    step_seconds: float | None


class Stage:
    """A running job; its phases are told by the steps that it has made, which are slower on a slower machine."""

    def __init__(self, process: subprocess.Popen[str], first: int, end: int) -> None:
        """first, end: the first step with the fault, and the first one without it again."""
        self._process = process
        self._first, self._end = first, end
        self._started_at = self._stepped_at = time.monotonic()
        self._steps = 0
        self._walls: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._follower = threading.Thread(target=self._follow, name="job", daemon=True)
        self._follower.start()

    @property
    def is_faulty(self) -> bool:
        """Whether the fault is there now."""
        return self._first <= self._steps + 1 < self._end

    @property
    def is_over(self) -> bool:
        """Whether the fault was there."""
        return self._steps + 1 >= self._end

    @property
    def fault_share(self) -> float:
        """How much of the fault's steps have been made."""
        return (self._steps + 1 - self._first) / (self._end - self._first)

    @property
    def stalled_seconds(self) -> float:
        """Since the last step."""
        return time.monotonic() - self._stepped_at

    @property
    def progress(self) -> Progress:
        """Of rank 0."""
        walls = sorted(self._walls)
        median = walls[len(walls) // 2] if walls else None
        return Progress(time.monotonic() - self._started_at, self.is_faulty, self._steps, median)

    @property
    def has_ended(self) -> bool:
        """By itself, which is early."""
        return self._process.poll() is not None

    def owns(self, tgid: int) -> bool:
        """Whether a process is one of the job's. False when it is gone."""
        try:
            return os.getpgid(tgid) == self._process.pid
        except (ProcessLookupError, PermissionError):
            return False

    def _follow(self) -> None:
        """Its lines must be read, or it stands still."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        for line in self._process.stdout:
            told = json.loads(line)
            if told.get("rank") == 0 and told.get("type") == "step":
                self._steps = told["step"]
                self._stepped_at = time.monotonic()
                self._walls.append(seconds(told["end_ns"] - told["start_ns"]))


@contextmanager
def private_libraries() -> Iterator[Path]:
    """The stand-in as files of their own, which no other process maps. Raises NotPossibleHere."""
    if not standin.is_built():
        raise NotPossibleHere(f"the stand-in GPU is not built in {standin.build_dir()}", remedy="run `make build`")
    with tempfile.TemporaryDirectory(prefix="gpu-stall-demo-") as folder:
        for name in (*standin.PROBED, "trainer"):
            shutil.copy(standin.build_dir() / name, Path(folder, name))
        yield Path(folder)


@contextmanager
def staged(scenario: Scenario, parts: Parts, folder: Path) -> Iterator[Stage]:
    """The job begins at once. folder: of private_libraries()."""
    first = max(round(parts.before / scenario.step_seconds), 1)
    end = first + round(parts.fault / scenario.slow_step_seconds)
    if scenario.is_last:
        end = 1 << 31
    flags = [f"--ranks={scenario.ranks}", "--seed=1", "--evaluate-every=0", "--allocate-every=0", *scenario.flags]
    if scenario.fault:
        until = 0 if scenario.is_last else (first + end) // 2 if scenario.neighbours is Neighbours.LATER else end
        flags += [*scenario.fault, f"--fault-from-step={first}", f"--fault-to-step={until}"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    with ExitStack() as stack:
        job = stack.enter_context(_alone([str(folder / "trainer"), *flags], environment))
        stage = Stage(job, first, end)
        if scenario.neighbours is not Neighbours.NONE:
            stack.enter_context(_visited(scenario.neighbours, stage, folder))
        yield stage


@contextmanager
def _alone(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """In a process group of its own, which ends with the block."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def _visited(kind: Neighbours, stage: Stage, folder: Path) -> Iterator[None]:
    """By other programs, while the fault lasts."""
    stopping = threading.Event()
    visitor = threading.Thread(target=_visit, args=(kind, stage, folder, stopping), name="neighbours", daemon=True)
    visitor.start()
    try:
        yield
    finally:
        stopping.set()
        visitor.join()


def _visit(kind: Neighbours, stage: Stage, folder: Path, stopping: threading.Event) -> None:
    while not stopping.wait(_LOOK_SECONDS):
        if not stage.is_faulty or (kind is Neighbours.LATER and stage.fault_share < 0.5):
            continue
        with ExitStack() as stack:
            for _ in range(_PER_CPU * (os.cpu_count() or 1)):
                shell = folder / NEIGHBOUR
                if not shell.exists():
                    shell.symlink_to(shutil.which("sh") or "/bin/sh")
                command = [str(shell), "-c", SPIN, NEIGHBOUR, str(os.getpid())]
                stack.enter_context(_alone(command, dict(os.environ)))
            if kind is Neighbours.PULSES:
                stopping.wait(_PULSE_SECONDS)
            else:
                while stage.is_faulty and not stopping.wait(_LOOK_SECONDS):
                    pass
        if kind is Neighbours.PULSES:
            stopping.wait(_PULSE_EVERY_SECONDS - _PULSE_SECONDS)
