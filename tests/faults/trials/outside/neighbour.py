"""Programs beside the job, in a control group of their own; gone with the block, and all that they have started."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.faults.injectors import NotPossible, cgroups
from tests.faults.injectors.cgroups import Group
from tests.faults.injectors.cpu import in_groups
from tests.faults.trials.job import TrialJob

GROUP = "neighbour"
USUAL_SHARES, USUAL_WEIGHT = 1024, 100
LEAST_CPU = 0.05
MEASURED_SECONDS = 1.0
PATIENCE_SECONDS = 10.0
_numbers = itertools.count(1)  # two faults at once have a group each


@contextmanager
def program(
    *line: str,
    groups: Sequence[Path] = (),
    cpus: str = "",
    nice: int = 0,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs within the block. folder: its working directory. Raises NotPossible when it is not installed."""
    if shutil.which(line[0]) is None:
        raise NotPossible(f"there is no {line[0]}")
    before = in_groups(groups)
    before += ["taskset", "-c", cpus] if cpus else []
    before += ["nice", "-n", str(nice)] if nice else []
    process = subprocess.Popen(
        [*before, *line],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def beside(
    job: TrialJob, share: float, *line: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[None]:
    """A command on the CPUs of the job, with a weight that makes steps longer by this part if it uses all it gets."""
    with (
        weighted(weight_for(job, share)) as group,
        program(*line, groups=[group.path], cpus=job.cpus, folder=folder, environment=environment),
    ):
        yield


@contextmanager
def weighted(weight: float, purpose: str = GROUP) -> Iterator[Group]:
    """A control group for programs, all of which end with it. weight: 1 for that of a usual group."""
    with cgroups.group("cpu", f"{purpose}-{next(_numbers)}") as group:
        weigh(group, weight)
        try:
            yield group
        finally:
            kill_all(group)


def weigh(group: Group, weight: float) -> None:
    """weight: 1 for that of a usual group."""
    if group.version == 1:
        group.write("cpu.shares", min(max(round(USUAL_SHARES * weight), 2), 1 << 18))
    else:
        group.write("cpu.weight", min(max(round(USUAL_WEIGHT * weight), 1), 10_000))


def kill_all(group: Group) -> None:
    """Also those in another session than their parent, and those that are started in the meantime."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (tgids := group.tgids()) and time.monotonic() < deadline:
        for tgid in tgids:
            with suppress(ProcessLookupError):
                os.kill(tgid, signal.SIGKILL)


def weight_for(job: TrialJob, share: float) -> float:
    """Only that part of a step becomes longer in which the job uses a CPU."""
    return share / max(min(cpu_use(job) / job.cpu_count, 1.0), LEAST_CPU)


def taken_for(job: TrialJob, share: float) -> float:
    """The part of each CPU of the job that has to be taken from it."""
    weight = weight_for(job, share)
    return weight / (1 + weight)


def cpu_use(job: TrialJob) -> float:
    """CPUs that it uses, measured."""
    return sum(cpu_uses(job).values())


def cpu_uses(job: TrialJob) -> dict[int, float]:
    """The same of each process."""
    before_seconds, before = job.cpu_seconds(), time.monotonic()
    time.sleep(MEASURED_SECONDS)
    passed = time.monotonic() - before
    return {tgid: (used - before_seconds.get(tgid, 0)) / passed for tgid, used in job.cpu_seconds().items()}


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
