"""A job that shares its CPUs with four busy programs: not an episode, since its label depends on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from exporter.causes import Cause
from tests.faults.episode import Episode, Scene
from tests.faults.injectors.cpu import HOG, hogs
from tests.faults.job import Window

PROGRAMS = 4


@contextmanager
def _crowd() -> Iterator[Scene]:
    yield Scene(injector=lambda _job: hogs(PROGRAMS))


def crowd(*flags: str) -> Episode:
    """280 of 420 steps beside them. flags: of the trainer."""
    return Episode(
        name="crowd",
        says="four programs of another control group take turns with the job on all CPUs",
        cause=Cause.CPU_CONTENTION,
        culprit=HOG,
        flags=flags,
        scene=_crowd,
        steps=420,
        window=Window(120, 400),
    )
