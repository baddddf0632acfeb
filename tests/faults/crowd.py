"""A job that shares its CPUs with busy programs: not an episode, since its label depends on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from exporter.causes import Cause
from tests.faults.episode import Episode, Scene
from tests.faults.job import Job, Window
from tests.support import accounts

PROGRAMS_PER_CPU = 2


@contextmanager
def _begin(_job: Job) -> Iterator[None]:
    """In the control group and the session of the job: they get as much of the CPUs as each of its threads."""
    with ExitStack() as stack:
        for cpu in os.sched_getaffinity(0):
            stack.enter_context(accounts.hogs(PROGRAMS_PER_CPU, cpu=cpu))
        yield


@contextmanager
def _crowd() -> Iterator[Scene]:
    yield Scene(injector=_begin)


def crowd(*flags: str) -> Episode:
    """280 of 420 steps beside them. flags: of the trainer."""
    return Episode(
        name="crowd",
        says="two programs for each CPU take turns with the job",
        cause=Cause.CPU_CONTENTION,
        culprit="sh",
        flags=flags,
        scene=_crowd,
        steps=420,
        window=Window(120, 400),
    )
