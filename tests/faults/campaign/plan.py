"""Which faults, how strong, and how often. One session is one job in which the same fault comes again and again.

Strengths are what the step should take longer, by arithmetic; what counts is what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from tests.faults import scenes
from tests.faults.episode import End, Episode
from tests.faults.job import Window
from tests.faults.registry import EPISODES

LEARN_SECONDS = 9.0
"""Before the first window: the engine wants five quiet seconds, and the first of a job are not."""
FAULT_SECONDS = 5.0
WEAK, WEAK_FAULT_SECONDS = 0.2, 20.0
"""A fault that makes steps longer by less gets more time: lost time has to reach half a second before a chain opens."""
QUIET_SECONDS = 9.0
"""Behind each window: five seconds until a chain is resolved, and some to be quiet in."""
WINDOWS = 5

_MIB = 1 << 20


def _with(name: str, slower: float, *fault: str, **others: object) -> tuple[Episode, float]:
    """An episode of the rig with flags of its own; slower: by which part, about."""
    episode = EPISODES[name]
    kept = [flag for flag in episode.fault if not any(flag.split("=")[0] == one.split("=")[0] for one in fault)]
    return replace(episode, fault=(*kept, *fault), **others), slower  # type: ignore[arg-type]


def _of_length(name: str, *shares: float) -> Iterator[tuple[Episode, float]]:
    """A fault with a length in each step: these shares of a step."""
    for share in shares:
        yield _with(name, share, f"--fault-us={round(EPISODES[name].step_seconds * share * 1e6)}")


def _faults() -> Iterator[tuple[Episode, float]]:
    for per_cpu, slower in ((0.5, 0.15), (1, 1.0), (2, 2.0), (3, 3.0)):  # half of the CPUs are free of the single one
        yield _with("cpu-neighbour", slower, scene=partial(scenes.neighbours, per_cpu))
    for percent, slower in ((70, 0.2), (55, 0.5), (40, 1.0), (30, 2.0)):
        yield _with("own-quota", slower, scene=partial(scenes.own_quota, percent))
    yield _with("quota-and-neighbour", 2.0)
    for threads in (2, 4, 6):
        yield _with("own-threads", threads / 2, f"--fault-threads={threads}")
    for share, slower in ((0.3, 0.15), (0.5, 0.5), (0.65, 1.2)):  # a step needs two thirds of its CPU
        yield _with("irq-storm", slower, scene=partial(scenes.irq_storm, share))
    for mib_per_second in (32, 16, 8):
        yield _with("slow-disk", 40 / mib_per_second, scene=partial(scenes.slow_disk, mib_per_second * _MIB))
    for readers in (8, 12):
        yield _with("flooded-disk", readers / 8, scene=partial(scenes.flooded_disk, readers))
    for mib in (4, 16):
        yield _with("reclaim", 0.7, scene=partial(scenes.full_group, mib * _MIB))
    for pages in (32, 128):
        yield _with("major-faults", pages / 64, scene=partial(scenes.pages_gone, pages))
    yield from _of_length("lock-holder-sleeps", 0.05, 0.1, 0.25, 0.6, 1.5)
    yield from _of_length("lock-holder-computes", 0.25, 0.6, 1.5)
    yield from _of_length("loader-sleeps", 1.0, 3.0)
    yield from _of_length("loader-computes", 1.0, 3.0)
    yield _with("loader-reads", 3.0)
    yield from _network_faults()
    for seconds in (1.0, 2.0):
        yield _with("stopped", seconds / FAULT_SECONDS, scene=partial(scenes.stop, seconds))
    # A quarter of a step is hidden behind the work of its GPU.
    for share, slower in ((0.3, 0.05), (0.35, 0.1), (0.6, 0.6), (1.0, 1.0)):
        ((episode, _),) = _of_length("slow-rank", share)
        yield episode, slower
    yield from _gpu_faults()


def _gpu_faults() -> Iterator[tuple[Episode, float]]:
    for factor in (1.1, 1.3, 2.0, 3.0):
        yield _with("slow-gpu", factor - 1, f"--fault-factor={factor}")
    for name in ("throttled-gpu", "gpu-neighbour"):
        for factor in (1.3, 2.0):
            yield _with(name, factor - 1, f"--fault-factor={factor}")
    for mib in (64, 256):
        yield _with("slow-copy", mib / 200, f"--fault-bytes={mib * _MIB}")
    for pairs in (10, 20, 40):
        yield _with("churn", pairs / 20, f"--fault-threads={pairs}")
    for us in (3_000, 10_000, 30_000):
        yield _with("recapture", us / 10_000, f"--fault-us={us}")
    for name in ("leak", "abandoned-capture"):
        yield _with(name, WEAK / 2)


def _network_faults() -> Iterator[tuple[Episode, float]]:
    for late_seconds, slower in ((0.003, 0.5), (0.02, 3.0)):
        yield _with("slow-peer", slower, scene=partial(scenes.slow_peer, late_seconds))
    yield _with("slow-peer-of-worker", 4.0)
    yield _with("tool-call", scenes.TOOL_SECONDS / FAULT_SECONDS)
    for one_of in (25, 15):
        yield _with("tcp-loss", 25 / one_of, scene=partial(scenes.tcp_loss, one_of))


DECOYS = (
    "quiet",
    "phase-change",
    "hogs-elsewhere",
    "unrelated-reads",
    "hidden-preemption",
    "many-switches",
    "idle-thread",
    "out-of-memory-survived",
)
FIRST = {"cold-start": 5}
"""Episodes that begin with the job, and how often they are made."""
LAST = {"hung-rank": 12, "out-of-memory": 10, "crash": 5, "oom-killed": 5}
"""Episodes that end the job, and how often they are made."""

SHORT = (
    "cpu-neighbour",
    "own-quota",
    "own-threads",
    "lock-holder-sleeps",
    "loader-sleeps",
    "slow-disk",
    "flooded-disk",
    "slow-peer",
    "slow-rank",
    "slow-gpu",
    "quiet",
)


def again(episode: Episode, slower: float, windows: int) -> Episode:
    """The same fault for so many windows. slower: by which part a step of them takes longer, about."""
    step = episode.step_seconds
    fault_seconds = WEAK_FAULT_SECONDS if 0 < slower < WEAK else FAULT_SECONDS
    first, fault = round(LEARN_SECONDS / step), max(round(fault_seconds / step / (1 + slower)), 5)
    every = fault + round(QUIET_SECONDS / step)
    return replace(
        episode, window=Window(first, first + fault), every=every, repeats=windows, steps=first + every * windows
    )


def _once(episode: Episode) -> Episode:
    """One that ends the job: at once by its own flag, or within a while by what is done to it."""
    first = round(LEARN_SECONDS / episode.step_seconds)
    steps = 1 if episode.fault else round(FAULT_SECONDS / episode.step_seconds)
    return replace(
        episode,
        window=Window(first, first + steps),
        steps=first + round(QUIET_SECONDS / episode.step_seconds),
        hang_seconds=LEARN_SECONDS * 1.5 + FAULT_SECONDS,
    )


def _at_first(episode: Episode) -> Episode:
    """One whose window is the job's first steps."""
    return replace(episode, steps=episode.window.end + round(episode.grace_seconds / episode.step_seconds))


def long_sessions() -> Iterator[Episode]:
    """At least 240 episodes, decoys not counted."""
    for episode, slower in _faults():
        yield again(episode, slower, WINDOWS)
    for name, times in LAST.items():
        yield from [_once(EPISODES[name])] * times
    for name, times in FIRST.items():
        yield from [_at_first(EPISODES[name])] * times
    for name in DECOYS:
        yield again(EPISODES[name], 0.0, WINDOWS)


def short_sessions() -> Iterator[Episode]:
    """About twenty episodes, and a decoy."""
    for name in SHORT:
        yield again(EPISODES[name], 0.0 if EPISODES[name].is_decoy else 1.5, 2)
    yield again(EPISODES["leak"], WEAK / 2, 1)
    yield again(EPISODES["recapture"], 1.0, 1)
    yield _once(EPISODES["hung-rank"])
    yield _once(EPISODES["crash"])


def episodes_of(sessions: Iterable[Episode]) -> int:
    """How many faults these are."""
    return sum(one.repeats for one in sessions if not one.is_decoy)


def is_last(episode: Episode) -> bool:
    """Whether nothing comes after its fault."""
    return episode.end is not End.WHOLE
