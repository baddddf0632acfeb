"""One trial: a shape's job learns its rhythm, has its fault, and is quiet again, while the kernel's tables are recorded.

A Trial is kept in one file: rows that changed, the job's own steps, and when the fault was on.
"""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from exporter.units import NANOSECONDS
from tests.faults.campaign.gauges import Gauge, gauging
from tests.faults.diagnosed import Event, events_of
from tests.faults.job import Step
from tests.faults.recorder import attached, ticking
from tests.faults.recording import RecordedRun, run_of, written
from tests.faults.shapes import SHAPES
from tests.faults.shapes.running import LoggedStep
from tests.faults.shapes.shape import InsideFault
from tests.faults.trials.extra import Extra
from tests.faults.trials.job import TrialJob, started
from tests.faults.trials.outside.registry import OUTSIDE
from tests.faults.trials.plan import PlannedFault, PlannedTrial

SUFFIX = ".trial.xz"
CROWD = "many-names"
"""The decoy that is there all the time in a crowded trial."""
LEARN_SECONDS = 13.0
QUIET_SECONDS = 10.0
FIRST_STEPS = 3
START_SECONDS = 90.0


@dataclass(frozen=True)
class Trial:
    """A trial that is over. run.injections_ns: when each fault was on, in the order of their begin.

    events: of the chains, when the exporter itself ran; None to replay the recording.
    """

    planned: PlannedTrial
    run: RecordedRun
    gauges: tuple[Gauge, ...] = ()
    reported: tuple[Event, ...] | None = None

    @property
    def events(self) -> list[Event]:
        """What was reported, or would have been."""
        return events_of(self.run) if self.reported is None else list(self.reported)


def play(planned: PlannedTrial, libraries: Path) -> Trial:
    """libraries: of private_standin(). Raises NotPossible or RuntimeError."""
    with attached(libraries) as traced, ticking(traced.kernel) as ticks, gauging(traced.tables) as gauges:
        steps, moments_ns = perform(planned, libraries)
    return Trial(planned, run_from(steps, moments_ns, ticks), tuple(gauges))


def perform(planned: PlannedTrial, libraries: Path) -> tuple[list[LoggedStep], list[tuple[int, int]]]:
    """The job and its fault: its steps, and when each fault was on. Raises what play() does."""
    shape = SHAPES[planned.shape]
    with (
        TemporaryDirectory(dir="/var/tmp") as folder,
        started(
            shape, Path(folder), libraries, seed=planned.seed + planned.number, extra=planned.extra, cpus=planned.cpus
        ) as job,
    ):
        job.running.wait_for_steps(FIRST_STEPS, START_SECONDS)
        with OUTSIDE[CROWD].bring(job, 0.0) if planned.is_crowded else nullcontext():
            _pause(job, LEARN_SECONDS)
            moments_ns = _bring_in_sequence(job, planned) if planned.gap_seconds else _bring(job, planned)
            _pause(job, QUIET_SECONDS)
        job.running.stop()
        return job.running.steps(), moments_ns


def _bring(job: TrialJob, planned: PlannedTrial) -> list[tuple[int, int]]:
    """All faults, one on top of the other: each one begins when the one below has had its share of the time."""
    moments_ns: list[tuple[int, int]] = []
    part_seconds = planned.fault_seconds / max(len(planned.faults), 1)
    with ExitStack() as stack:
        for fault in planned.faults:
            stack.enter_context(_noted(_brought(job, fault), moments_ns))
            _pause(job, part_seconds)
        if not planned.faults:
            stack.enter_context(_noted(ExitStack(), moments_ns))
            _pause(job, part_seconds)
    return sorted(moments_ns)


def _bring_in_sequence(job: TrialJob, planned: PlannedTrial) -> list[tuple[int, int]]:
    moments_ns: list[tuple[int, int]] = []
    for fault in planned.faults:
        if moments_ns:
            _pause(job, planned.gap_seconds)
        with _noted(_brought(job, fault), moments_ns):
            _pause(job, planned.fault_seconds)
    return moments_ns


def _brought(job: TrialJob, fault: PlannedFault) -> AbstractContextManager[object]:
    if fault.is_inside:
        return job.running.fault(InsideFault(fault.name), fault.share, fault.rank)
    return OUTSIDE[fault.name].bring(job, fault.share)


@contextmanager
def _noted(fault: AbstractContextManager[object], moments_ns: list[tuple[int, int]]) -> Iterator[None]:
    with fault:
        on_ns = time.monotonic_ns()
        yield
        moments_ns.append((on_ns, time.monotonic_ns()))


def _pause(job: TrialJob, seconds: float) -> None:
    time.sleep(seconds)
    if job.running.process.poll() is not None:
        raise RuntimeError(f"{job.running.shape.name} ended early: {job.running.said()[-500:]}")


def run_from(
    steps: Sequence[LoggedStep], moments_ns: Sequence[tuple[int, int]], ticks: Sequence[Any] = ()
) -> RecordedRun:
    """As the accounting's judges take it."""
    found = tuple(Step(one.rank, one.step, one.start_ns, one.end_ns, 0, 0, 0, 0) for one in steps)
    return RecordedRun(found, tuple(moments_ns), {one.rank: one.tgid for one in steps}, tuple(ticks))


def save(trial: Trial, folder: Path) -> Path:
    """One file of the trial."""
    lines = [asdict(trial.planned), written(trial.run), list(trial.gauges)]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path = folder / f"{trial.planned.name}{SUFFIX}"
    path.write_bytes(lzma.compress(text.encode(), preset=6))
    return path


def load(path: Path) -> Trial:
    """A trial from its file."""
    with lzma.open(path, "rt", encoding="ascii") as file:
        planned, run, gauges = map(json.loads, file)
    faults = tuple(PlannedFault(**fault) for fault in planned.pop("faults"))
    known = PlannedTrial(**planned | {"faults": faults, "extra": Extra(planned["extra"])})
    return Trial(known, run_of(run), tuple(Gauge(*gauge) for gauge in gauges))


def seconds_of(planned: PlannedTrial) -> float:
    """How long it takes, about."""
    gaps = max(len(planned.faults), 1) - 1
    faults_seconds = planned.fault_seconds * (gaps + 1 if planned.gap_seconds else 1)
    return LEARN_SECONDS + faults_seconds + gaps * planned.gap_seconds + QUIET_SECONDS + 5


def first_ns(trial: Trial) -> int:
    """When the rhythm of the job was known, about: half of the time to learn."""
    return min(step.start_ns for step in trial.run.steps) + round(LEARN_SECONDS / 2 * NANOSECONDS)
