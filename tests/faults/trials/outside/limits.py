"""Limits of the job itself: quotas, memory, and what stops its processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.faults.injectors import NotPossible, cgroups, memory
from tests.faults.injectors.quota import quota
from tests.faults.trials.extra import Extra
from tests.faults.trials.fault import OutsideFault
from tests.faults.trials.job import TrialJob
from tests.faults.trials.outside.neighbour import LEAST_CPU, cpu_use, cpu_uses, program, scratch

PERIOD_SECONDS = 0.8
TOUCHED_BYTES = 16 << 20  # shapes/programs/extra.py
SPARE_BYTES = 64 << 20  # with less the kernel kills
PAUSED = frozenset({"paused"})


@contextmanager
def _quota(job: TrialJob, share: float) -> Iterator[None]:
    """So much CPU time that what the job has used takes longer by this part."""
    with quota(job.groups["cpu"], max(round(100 * cpu_use(job) / (1 + share)), 2)):
        yield


@contextmanager
def _one_cpu(job: TrialJob, share: float) -> Iterator[None]:
    """All of its threads on one CPU; how much longer steps take is up to the job."""
    if job.cpus or job.cpu_count < 2:
        raise NotPossible("the job has one CPU anyway")
    every = os.sched_getaffinity(0)
    with ExitStack() as stack:
        stack.callback(_confine, job, every)
        _confine(job, {0})
        yield


@contextmanager
def _cpuset(job: TrialJob, share: float) -> Iterator[None]:
    """The job's cpuset is one CPU, as a node's CPU manager would have it; how much longer steps take is up to the job."""
    if job.cpus or job.cpu_count < 2:
        raise NotPossible("the job has one CPU anyway")
    group = job.groups["cpu"]
    if group.version == 2:
        if not (group.path / "cpuset.cpus").exists():
            raise NotPossible("control groups have no cpuset here")
        before = group.read("cpuset.cpus")
        with ExitStack() as stack:
            stack.callback(group.write, "cpuset.cpus", f"{before}\n")  # an empty write would change nothing
            group.write("cpuset.cpus", "0")
            yield
        return
    root, _ = cgroups.hierarchy("cpuset")
    with cgroups.group("cpuset", "cpuset") as own:
        own.write("cpuset.mems", (root / "cpuset.mems").read_text().strip())
        own.write("cpuset.cpus", "0")
        for tgid in job.tgids():
            with suppress(NotPossible):  # it has ended
                own.write("cgroup.procs", tgid)
        yield


def _confine(job: TrialJob, cpus: set[int]) -> None:
    for tgid in job.tgids():
        with suppress(OSError):
            for tid in map(int, os.listdir(f"/proc/{tgid}/task")):  # noqa: PTH208 - numbers
                with suppress(OSError):
                    os.sched_setaffinity(tid, cpus)


@contextmanager
def _cpulimit(job: TrialJob, share: float) -> Iterator[None]:
    """It stops and continues the processes of the job so that they use less of the CPUs."""
    busy = {tgid: used for tgid, used in cpu_uses(job).items() if used > LEAST_CPU}
    with ExitStack() as stack:
        for tgid, used in busy.items():
            stack.callback(_signal, tgid, signal.SIGCONT)
            percent = max(round(100 * used / (1 + share)), 1)
            stack.enter_context(program("cpulimit", "-l", str(percent), "-p", str(tgid)))
        yield


def _signal(tgid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(tgid, number)


@contextmanager
def by_turns(off: Callable[[], None], on: Callable[[], None], share: float, period_seconds: float) -> Iterator[None]:
    """Off for that part of each period that makes work take longer by this share; on in any case after the block."""
    over = threading.Event()

    def turn() -> None:
        while not over.wait(period_seconds / (1 + share)):
            off()
            over.wait(period_seconds * share / (1 + share))
            on()

    thread = threading.Thread(target=turn, name="turns", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        on()


@contextmanager
def _stopped(job: TrialJob, share: float) -> Iterator[None]:
    """SIGSTOP and SIGCONT, as of a debugger or a scheduler that preempts."""

    def send(number: int) -> None:
        for tgid in job.tgids():
            _signal(tgid, number)

    with by_turns(lambda: send(signal.SIGSTOP), lambda: send(signal.SIGCONT), share, PERIOD_SECONDS):
        yield


@contextmanager
def _frozen(job: TrialJob, share: float) -> Iterator[None]:
    """The control group is frozen and thawed, as by `docker pause`."""
    group = job.groups["freezer"]
    name, frozen, thawed = ("freezer.state", "FROZEN", "THAWED") if group.version == 1 else ("cgroup.freeze", "1", "0")
    with by_turns(lambda: group.write(name, frozen), lambda: group.write(name, thawed), share, PERIOD_SECONDS):
        yield


@contextmanager
def _full_group(job: TrialJob, share: float) -> Iterator[None]:
    """A second program in the job's container writes files until its memory is full of pages that wait to be written."""
    with scratch() as folder:
        path = folder / "written"
        path.touch()
        spare_bytes = job.running.shape.ranks * TOUCHED_BYTES + SPARE_BYTES
        with memory.reclaim(job.groups["memory"], path, spare_bytes):
            yield


FAULTS = (
    OutsideFault("own-quota", "a limit on the CPU time of the job's group", frozenset({"cpu_quota"}), _quota),
    OutsideFault(
        "one-cpu", "all threads of the job on one CPU", frozenset({"cpu_oversubscribed"}), _one_cpu, is_of_all_cpus=True
    ),
    OutsideFault(
        "smaller-cpuset",
        "the job's cpuset is made one CPU",
        frozenset({"cpu_oversubscribed"}),
        _cpuset,
        is_of_all_cpus=True,
    ),
    OutsideFault(
        "cpulimit", "cpulimit, which stops the job again and again", PAUSED, _cpulimit, needs=("cpulimit:cpulimit",)
    ),
    OutsideFault("stopped-by-signal", "SIGSTOP and SIGCONT by turns", PAUSED, _stopped),
    OutsideFault("frozen", "the job's control group frozen by turns", PAUSED, _frozen),
    OutsideFault(
        "full-group",
        "the job's memory limit reached, by a writer in its group",
        frozenset({"memory_reclaim", "major_fault"}),
        _full_group,
        extra=Extra.MEMORY,
    ),
)
