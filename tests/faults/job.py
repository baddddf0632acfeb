"""One run of the training job: started where a scene says, watched step by step, ended in any case."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpustall_standin as standin
from tests.faults.injectors.cpu import in_groups
from tests.faults.injectors.network import inside

COMM = "trainer"


@dataclass(frozen=True)
class Step:
    """A step as the trainer reports it, in ns; tests/standin/src/trainer/step.c says where each field begins and ends.

    start_ns, end_ns: CLOCK_MONOTONIC.
    """

    rank: int
    number: int
    start_ns: int
    end_ns: int
    loader_wait_ns: int
    delay_ns: int
    cpu_ns: int
    runnable_ns: int

    @property
    def wall_ns(self) -> int:
        """How long it lasted."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Result:
    """A run that is over.

    finals: the final line of each rank, as it is. code: the exit code, None when it had to be ended.
    injections_ns: from when to when an injector was at work, CLOCK_MONOTONIC; for each window, none when there was no injector.
    """

    steps: tuple[Step, ...]
    finals: tuple[dict[str, Any], ...]
    code: int | None
    said: str
    injections_ns: tuple[tuple[int, int], ...] = ()

    def walls_ns(self, rank: int) -> dict[int, int]:
        """How long each step of a rank lasted, by number."""
        return {step.number: step.wall_ns for step in self.steps if step.rank == rank}


@dataclass
class Job:
    """A run that goes on, as an injector sees it."""

    process: subprocess.Popen[str]
    steps: list[Step] = field(default_factory=list)

    def rank_tgid(self, rank: int) -> int:
        """The process of a rank: the parent starts them in order. Raises RuntimeError when the job is over."""
        tgid = self.process.pid
        ranks = Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split()
        if rank >= len(ranks):
            raise RuntimeError("the job was over before the fault came")
        return int(ranks[rank])


Injector = Callable[[Job], AbstractContextManager[None]]


@dataclass(frozen=True)
class Window:
    """The steps from `first` on and before `end`, as rank 0 makes them."""

    first: int
    end: int

    def __contains__(self, step: object) -> bool:
        return isinstance(step, int) and self.first <= step < self.end

    def __len__(self) -> int:
        return self.end - self.first


@dataclass
class Watch:
    """Enters and leaves an injector as the steps come, and remembers when. windows: in order."""

    windows: Sequence[Window]
    injector: Injector | None
    injections_ns: list[tuple[int, int]] = field(default_factory=list)
    _start_ns: int | None = None

    def follow(self, job: Job) -> list[dict[str, Any]]:
        """Reads the job's lines to their end: the steps into the job, the final lines as they are."""
        finals = []
        assert job.process.stdout is not None
        with ExitStack() as injected:
            for text in job.process.stdout:
                line = json.loads(text)
                if line["type"] == "final":
                    finals.append(line)
                    continue
                step = _step(line)
                job.steps.append(step)
                if step.rank == 0 and self.injector is not None:
                    self._advance(job, step.number, injected)
        self._note_end()
        return finals

    def _advance(self, job: Job, number: int, injected: ExitStack) -> None:
        assert self.injector is not None
        if any(number == window.end - 1 for window in self.windows) and self._start_ns is not None:
            injected.close()
            self._note_end()
        if any(number == window.first - 1 for window in self.windows):
            # From just before the injector is entered to just after it was left.
            self._start_ns = time.monotonic_ns()
            injected.enter_context(self.injector(job))

    def _note_end(self) -> None:
        if self._start_ns is not None:
            self.injections_ns.append((self._start_ns, time.monotonic_ns()))
            self._start_ns = None


@dataclass(frozen=True)
class Place:
    """Where a job runs: control groups (folders), CPUs as taskset takes them, a network namespace by its name."""

    groups: tuple[Path, ...] = ()
    cpus: str = ""
    namespace: str = ""


def run(
    flags: Sequence[str],
    windows: Sequence[Window],
    *,
    place: Place | None = None,
    injector: Injector | None = None,
    patience_seconds: float = 60.0,
    folder: Path | None = None,
) -> Result:
    """Make a run to its end, or to the end of patience.

    injector: entered when the step before a window is over, left when the last one of the window is.
    folder: of the trainer and its libraries, when they are not those of the build.
    """
    place, folder = place or Place(), folder or standin.build_dir()
    line = in_groups(place.groups)
    line += ["taskset", "-c", place.cpus] if place.cpus else []
    line += inside(place.namespace)
    line += [str(folder / "trainer"), *flags]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        job, watch, is_late = Job(process), Watch(windows, injector), threading.Event()

        def end() -> None:
            is_late.set()
            process.terminate()

        patience = threading.Timer(patience_seconds, end)
        patience.start()
        try:
            finals = watch.follow(job)
            assert process.stderr is not None
            said = process.stderr.read()
            code = process.wait()
        finally:
            patience.cancel()
            if process.poll() is None:
                process.kill()
    return Result(tuple(job.steps), tuple(finals), None if is_late.is_set() else code, said, tuple(watch.injections_ns))


def _step(line: dict[str, Any]) -> Step:
    return Step(
        rank=line["rank"],
        number=line["step"],
        start_ns=line["start_ns"],
        end_ns=line["end_ns"],
        loader_wait_ns=line["loader_wait_ns"],
        delay_ns=line["delay_ns"],
        cpu_ns=line["cpu_ns"],
        runnable_ns=line["runnable_ns"],
    )
