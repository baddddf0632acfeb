"""How much longer each step took with the fault than without it: two runs with the same seed, paired step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.faults.episode import End, Episode
from tests.faults.job import Result, Window, run

NEIGHBOURS = 5  # like steps to each side that say, together with the same step, how long it takes
AFTERMATH = 5  # steps behind the window that may still pay for it
PATIENCE_SECONDS = 90.0
SETTLING = 5  # first steps, which are not compared: libraries and page tables are new


@dataclass(frozen=True)
class StepTruth:
    """One step of one rank; base_ns: the median of its clean pair, with_ns: how long it took in the faulty run."""

    rank: int
    number: int
    base_ns: int
    with_ns: int

    @property
    def lost_ns(self) -> int:
        """Negative when the step was faster."""
        return self.with_ns - self.base_ns


@dataclass(frozen=True)
class Truth:
    """A pair of runs.

    steps: what both runs have of each rank, in order. missing: how many steps a rank made only without the fault.
    window: the steps with the fault; where an injector brought it about, those that it met.
    """

    steps: tuple[StepTruth, ...]
    missing: dict[int, int]
    window: Window
    faulty: Result

    def ranks(self) -> tuple[int, ...]:
        """Those that made steps."""
        return tuple(sorted({step.rank for step in self.steps}))

    def of(self, rank: int, window: Window | None = None) -> tuple[StepTruth, ...]:
        """The steps of a rank, all or those in a window."""
        return tuple(step for step in self.steps if step.rank == rank and (window is None or step.number in window))

    def lost_ns(self, rank: int = 0) -> int:
        """Sum over the window and its aftermath of what each step took longer than its clean pair."""
        paid = Window(self.window.first, self.window.end + AFTERMATH)
        return sum(step.lost_ns for step in self.of(rank, paid))

    def clean_ns(self, rank: int = 0) -> int:
        """What the same steps take without the fault."""
        paid = Window(self.window.first, self.window.end + AFTERMATH)
        return sum(step.base_ns for step in self.of(rank, paid))

    def typical_ns(self, rank: int = 0) -> int:
        """The median loss of a step of the window: a few slow steps do not move it."""
        losses = [step.lost_ns for step in self.of(rank, self.window)]
        return round(median(losses)) if losses else 0

    def noise_ns(self, rank: int = 0) -> int:
        """What the steps before the window lost, for as many steps as the window has: what no fault can explain."""
        before = self.of(rank, Window(1 + SETTLING, self.window.first))
        return sum(step.lost_ns for step in before) * len(self.window) // len(before) if before else 0


def baselines(runs: Sequence[Mapping[int, int]], period: int = 1) -> dict[int, int]:
    """The length of each step, by number: the median over the same and the nearest like steps of all clean runs.

    runs: for each run, walls by step number. period: steps this far apart are alike.
    """
    found = {}
    for number in sorted(set().union(*runs)):
        like = range(number - NEIGHBOURS * period, number + NEIGHBOURS * period + 1, period)
        walls = [walls_ns[near] for walls_ns in runs for near in like if near in walls_ns and near > 0]
        found[number] = round(median(walls))
    return found


def met(result: Result, planned: Window) -> Window:
    """The steps of rank 0 during which the injector was at work: it learns of a step from a line, and may be late."""
    if not result.injections_ns:
        return planned
    start_ns, end_ns = result.injections_ns[0]
    numbers = [s.number for s in result.steps if s.rank == 0 and s.end_ns > start_ns and s.start_ns < end_ns]
    return Window(min(numbers), max(numbers) + 1) if numbers else planned


def pair(clean: Sequence[Result], faulty: Result, window: Window, ranks: Iterable[int], period: int = 1) -> Truth:
    """Pairs the steps of runs by rank and number; steps that one side lacks are left out."""
    steps, missing = [], {}
    for rank in ranks:
        base = baselines([result.walls_ns(rank) for result in clean], period)
        steps += [
            StepTruth(rank, number, base[number], with_ns)
            for number, with_ns in sorted(faulty.walls_ns(rank).items())
            if number in base
        ]
        missing[rank] = len(base.keys() - faulty.walls_ns(rank).keys())
    return Truth(tuple(steps), missing, met(faulty, window), faulty)


def measure(episode: Episode, clean_runs: int = 1) -> Truth:
    """Make the runs of an episode, the clean ones first.

    Raises NotPossible when this machine cannot have the fault, RuntimeError when a run ends as it should not.
    """
    clean = [make(episode, is_faulty=False) for _ in range(clean_runs)]
    return pair(clean, make(episode, is_faulty=True), episode.window, range(episode.ranks), episode.period)


def make(episode: Episode, *, is_faulty: bool, folder: Path | None = None) -> Result:
    """One run of an episode. folder: see run(). Raises what measure() does."""
    with episode.scene() as scene:
        flags = (*episode.common_flags(), *scene.flags, *(episode.fault_flags() if is_faulty else ()))
        result = run(
            flags,
            episode.windows,
            place=scene.place,
            injector=scene.injector if is_faulty else None,
            patience_seconds=_patience_seconds(episode, is_faulty=is_faulty),
            folder=folder,
        )
    end = End.WHOLE if result.code == 0 else End.HANGS if result.code is None else End.DIES
    expected = episode.end if is_faulty else End.WHOLE
    if end is not expected:
        which = "faulty" if is_faulty else "clean"
        raise RuntimeError(f"{episode.name}: the {which} run {end}, code {result.code}: {result.said.strip()}")
    return result


def _patience_seconds(episode: Episode, *, is_faulty: bool) -> float:
    """Faults make steps longer, and so do slow machines."""
    if is_faulty and episode.end is End.HANGS:
        return episode.hang_seconds
    return max(PATIENCE_SECONDS, 4 * episode.steps * episode.step_seconds)
