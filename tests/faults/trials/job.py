"""A shape's job as a fault sees it: in control groups of its own, as a container is, on all CPUs or on one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from exporter.units import NANOSECONDS
from tests.faults.injectors import cgroups
from tests.faults.injectors.cgroups import Group
from tests.faults.injectors.cpu import in_groups
from tests.faults.shapes.running import Running, running
from tests.faults.shapes.shape import Shape
from tests.faults.trials.extra import Extra, ExtraSetup, set_up

CONTROLLERS = ("cpu", "memory", "blkio", "freezer")
RECENT_STEPS = 100
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class TrialJob:
    """A job that runs. groups: by controller. cpus: a list as taskset takes it, "" for all."""

    running: Running
    groups: Mapping[str, Group]
    cpus: str
    extra: ExtraSetup

    @property
    def cpu_count(self) -> int:
        """CPUs that it may use."""
        return 1 if self.cpus else len(os.sched_getaffinity(0))

    def step_seconds(self) -> float:
        """From one step of a rank to the next, in the median of the recent ones."""
        steps = self.running.steps()
        ranks = len({step.rank for step in steps}) or 1
        ends = sorted(step.end_ns for step in steps)[-RECENT_STEPS * ranks :]
        return median(after - before for before, after in zip(ends, ends[ranks:], strict=False)) / NANOSECONDS

    def cpu_seconds(self) -> dict[int, float]:
        """CPU time of each living process so far."""
        return {tgid: _cpu_seconds(tgid) for tgid in self.tgids()}

    def tgids(self) -> list[int]:
        """Its living processes."""
        return self.groups["cpu"].tgids()


def _cpu_seconds(tgid: int) -> float:
    try:
        words = Path(f"/proc/{tgid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / _TICKS


@contextmanager
def started(
    shape: Shape, folder: Path, libraries: Path, *, seed: int, extra: Extra = Extra.NONE, cpus: str = ""
) -> Iterator[TrialJob]:
    """folder: empty. libraries: the stand-in's. All that it was started with is gone after the block. Raises NotPossible."""
    with set_up(extra) as done, cgroups.groups(CONTROLLERS, "job") as groups:
        before = in_groups(sorted({group.path for group in groups.values()}))
        before += ["taskset", "-c", cpus] if cpus else []
        with running(
            shape, folder, libraries=libraries, seed=seed, before=[*before, *done.before], variables=done.variables,
            output=done.output,
        ) as job:  # fmt: skip
            yield TrialJob(job, groups, cpus, done)
