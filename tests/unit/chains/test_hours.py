"""Three hours of a job that drifts: nothing is frozen, and a fault in the last hour is seen as one in the first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change
from tests.unit.chains.job import DISK, HOG, SECOND, Scene

HOURS = 3
NOISE = 0.02
WORST_DRIFT_PER_HOUR = 0.3
FIRST_NS = 1_000 * SECOND  # when a scene begins


@dataclass
class Fault:
    """From second to second, with steps longer by this share."""

    begins: int
    ends: int
    share: float
    cause: tuple[Cause, str]

    def is_on(self, second: int) -> bool:
        return self.begins <= second < self.ends


def faults(random: Random) -> list[Fault]:
    """Steps from a fifth longer to twice as long, for 15 to 60 s, every 10 to 30 minutes, and in the last minute but one."""
    found, second = [], 600
    while second < HOURS * 3600 - 1200:
        length = random.randrange(15, 60)
        found.append(Fault(second, second + length, random.uniform(0.2, 1.0), random.choice((DISK, HOG))))
        second += random.randrange(600, 1800)
    return [*found, Fault(HOURS * 3600 - 120, HOURS * 3600 - 60, 0.25, DISK)]


@cache
def watched(seed: int) -> tuple[Scene, list[Fault]]:
    """The scene when it is over, and what was wrong in it."""
    random, scene = Random(seed), Scene()
    wrong = faults(random)
    length, drift, stray = 10.0, 0.0, 0.0
    for second in range(HOURS * 3600):
        if second % 1800 == 0:
            drift = random.uniform(-WORST_DRIFT_PER_HOUR, WORST_DRIFT_PER_HOUR) / 3600
        length *= 1 + drift
        stray = 0.98 * stray + random.gauss(0, NOISE / 5)
        on = next((fault for fault in wrong if fault.is_on(second)), None)
        step_ms = length * (1 + stray) * (1 + random.gauss(0, NOISE))
        if on is None:
            scene.go_on(1, step_ms=step_ms)
        else:
            scene.go_on(1, step_ms=step_ms * (1 + on.share), lost={on.cause: on.share / (1 + on.share)})
    return scene, wrong


def chains_of(scene: Scene, wanted: Change) -> list[Chain]:
    """But for reports of what is normal from now on."""
    return [chain for change, chain in scene.transitions if change is wanted and chain.cause is not Cause.CHANGED]


@pytest.mark.parametrize("seed", [1, 2])
class TestThreeHours:
    """Steps that become longer or shorter, by up to 30 % an hour, and stray by a few percent for minutes."""

    def test_each_fault_has_one_chain_of_its_cause_within_four_seconds(self, seed: int) -> None:
        scene, wrong = watched(seed)
        opened = [(chain.opened_ns - FIRST_NS, chain.cause) for chain in chains_of(scene, Change.OPENED)]

        assert [cause for _, cause in opened] == [fault.cause[0] for fault in wrong]
        for (opened_ns, _), fault in zip(opened, wrong, strict=True):
            assert 0 <= opened_ns - fault.begins * SECOND <= 4 * SECOND

    def test_no_chain_is_open_ten_seconds_after_its_fault(self, seed: int) -> None:
        scene, wrong = watched(seed)
        resolved = [chain.updated_ns - FIRST_NS for chain in chains_of(scene, Change.RESOLVED)]

        assert len(resolved) == len(wrong)
        for resolved_ns, fault in zip(resolved, wrong, strict=True):
            assert resolved_ns <= (fault.ends + 10) * SECOND
