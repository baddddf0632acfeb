"""The training job of a live demo and the programs that disturb it. Everything ends with the `with` block.

In: a JobPlan and the length of its three phases. Out: a Job that knows how far it is.
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

import gpustall_standin as standin
from exporter.demo.live import Progress
from exporter.errors import NotPossibleHere
from exporter.units import seconds
from gpustall_standin.scenarios import JobPlan, Neighbours

NEIGHBOUR = "noisy-neighbour"
"""At most fifteen characters, which is what the kernel keeps of a name."""
_PER_CPU = 2
_PULSE_SECONDS, _PULSE_EVERY_SECONDS = 1.0, 3.0
# A shell that spins until the process that started it is gone.
SPIN = 'while kill -0 "$1" 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done'
_RECENT_STEPS = 50
_POLL_SECONDS = 0.05


class Phases(NamedTuple):
    """Seconds of the job without the fault, with it, and without it again."""

    before: float
    fault: float
    after: float

    @classmethod
    def of(cls, plan: JobPlan, duration_seconds: float) -> Phases:
        """Split a duration. A baseline takes eight seconds to learn, and a chain six to resolve."""
        if plan.starts_faulty:
            return cls(0.0, duration_seconds / 4, duration_seconds * 3 / 4)
        before, after = 0.36 * duration_seconds, 0.0 if plan.stays_faulty else 0.28 * duration_seconds
        return cls(before, duration_seconds - before - after, after)


class Job:
    """A running job. Its phases are counted in steps, which take longer on a slower machine."""

    def __init__(self, process: subprocess.Popen[str], first: int, end: int) -> None:
        """first, end: the first faulty step, and the first healthy one after it."""
        self._process = process
        self._first, self._end = first, end
        self._started_at = self._stepped_at = time.monotonic()
        self._steps = 0
        self._walls: deque[float] = deque(maxlen=_RECENT_STEPS)
        self._reader = threading.Thread(target=self._read, name="job", daemon=True)
        self._reader.start()

    @property
    def is_faulty(self) -> bool:
        return self._first <= self._steps + 1 < self._end

    @property
    def is_fault_over(self) -> bool:
        return self._steps + 1 >= self._end

    @property
    def fault_share(self) -> float:
        """Share of the faulty steps that are done."""
        return (self._steps + 1 - self._first) / (self._end - self._first)

    @property
    def stalled_seconds(self) -> float:
        """Time since the last step."""
        return time.monotonic() - self._stepped_at

    @property
    def progress(self) -> Progress:
        walls = sorted(self._walls)
        median = walls[len(walls) // 2] if walls else None
        return Progress(time.monotonic() - self._started_at, self.is_faulty, self._steps, median)

    @property
    def has_ended(self) -> bool:
        """Whether the job ended early."""
        return self._process.poll() is not None

    def owns(self, tgid: int) -> bool:
        """Whether a process belongs to the job. False for one that has ended."""
        try:
            return os.getpgid(tgid) == self._process.pid
        except (ProcessLookupError, PermissionError):
            return False

    def _read(self) -> None:
        """The trainer blocks when nothing reads its lines."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            step = json.loads(line)
            if step.get("rank") == 0 and step.get("type") == "step":
                self._steps = step["step"]
                self._stepped_at = time.monotonic()
                self._walls.append(seconds(step["end_ns"] - step["start_ns"]))


@contextmanager
def private_libraries() -> Iterator[Path]:
    """Copies of the stand-in's libraries and its trainer, which no other process maps. Raises NotPossibleHere."""
    if not standin.is_built():
        raise NotPossibleHere(f"the stand-in GPU is not built in {standin.build_dir()}", remedy="run `make build`")
    with tempfile.TemporaryDirectory(prefix="gpu-stall-demo-") as folder:
        for name in (*standin.PROBED, "trainer"):
            shutil.copy(standin.build_dir() / name, Path(folder, name))
        yield Path(folder)


@contextmanager
def running_job(plan: JobPlan, phases: Phases, folder: Path) -> Iterator[Job]:
    """Starts the job at once. folder: of private_libraries()."""
    first = max(round(phases.before / plan.step_seconds), 1)
    end = first + round(phases.fault / plan.slow_step_seconds)
    if plan.stays_faulty:
        end = 1 << 31
    flags = [f"--ranks={plan.ranks}", "--seed=1", "--evaluate-every=0", "--allocate-every=0", *plan.flags]
    if plan.fault:
        until = 0 if plan.stays_faulty else (first + end) // 2 if plan.neighbours is Neighbours.LATER else end
        flags += [*plan.fault, f"--fault-from-step={first}", f"--fault-to-step={until}"]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    with ExitStack() as stack:
        process = stack.enter_context(_process_group([str(folder / "trainer"), *flags], environment))
        job = Job(process, first, end)
        if plan.neighbours is not Neighbours.NONE:
            stack.enter_context(_disturbed(plan.neighbours, job, folder))
        yield job


@contextmanager
def _process_group(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A command in a process group of its own, which is killed with the block."""
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
def _disturbed(kind: Neighbours, job: Job, folder: Path) -> Iterator[None]:
    """Other programs run on the job's CPUs while the fault lasts."""
    stopping = threading.Event()
    thread = threading.Thread(target=_disturb, args=(kind, job, folder, stopping), name="neighbours", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _disturb(kind: Neighbours, job: Job, folder: Path, stopping: threading.Event) -> None:
    while not stopping.wait(_POLL_SECONDS):
        if not job.is_faulty or (kind is Neighbours.LATER and job.fault_share < 0.5):
            continue
        with ExitStack() as stack:
            for _ in range(_PER_CPU * (os.cpu_count() or 1)):
                shell = folder / NEIGHBOUR
                if not shell.exists():
                    shell.symlink_to(shutil.which("sh") or "/bin/sh")
                command = [str(shell), "-c", SPIN, NEIGHBOUR, str(os.getpid())]
                stack.enter_context(_process_group(command, dict(os.environ)))
            if kind is Neighbours.PULSES:
                stopping.wait(_PULSE_SECONDS)
            else:
                while job.is_faulty and not stopping.wait(_POLL_SECONDS):
                    pass
        if kind is Neighbours.PULSES:
            stopping.wait(_PULSE_EVERY_SECONDS - _PULSE_SECONDS)
