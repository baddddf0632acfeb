"""`python -m tests.faults --list`, `python -m tests.faults NAME...`: the episodes, and their truth as tables."""

from __future__ import annotations

import argparse
import sys

from tests.faults.episode import Episode
from tests.faults.injectors import NotPossible
from tests.faults.job import Window
from tests.faults.registry import EPISODES
from tests.faults.truth import AFTERMATH, Truth, measure
from tests.support.standin_gpu import MS, built

AROUND = 3  # steps shown before the window, and behind its aftermath


def listed(episode: Episode) -> str:
    """One line about an episode."""
    kind = "decoy" if episode.is_decoy else "fault"
    return f"{episode.name:24}{kind:7}{'+'.join(episode.causes) or 'none':28}{episode.culprit:16}{episode.says}"


def table(episode: Episode, truth: Truth, *, is_whole: bool = False) -> str:
    """The steps around the window, and what they come to."""
    first, end = truth.window.first - AROUND, truth.window.end + AFTERMATH + AROUND
    shown = Window(0, episode.steps + 1) if is_whole else Window(first, end)
    lines = [
        f"{episode.name}: {episode.says}",
        f"{'rank':>4}{'step':>6}{'clean ms':>11}{'faulty ms':>11}{'lost ms':>10}",
    ]
    for step in sorted(truth.steps, key=lambda step: (step.rank, step.number)):
        if step.number in shown:
            mark = " *" if step.number in truth.window else ""
            times = f"{step.base_ns / MS:11.2f}{step.with_ns / MS:11.2f}{step.lost_ns / MS:10.2f}"
            lines.append(f"{step.rank:4}{step.number:6}{times}{mark}")
    return "\n".join([*lines, *(summary(truth, rank) for rank in truth.ranks())])


def summary(truth: Truth, rank: int) -> str:
    """What a rank lost."""
    lost, clean = truth.lost_ns(rank) / MS, truth.clean_ns(rank) / MS
    share = f" ({100 * lost / clean:+.0f} %)" if clean else ""
    typical, noise = truth.typical_ns(rank) / MS, truth.noise_ns(rank) / MS
    never = f"; {truth.missing[rank]} steps never made" if truth.missing[rank] else ""
    return f"rank {rank}: lost {lost:.1f} ms{share}, {typical:.2f} ms in the median step; noise {noise:.1f} ms{never}"


def main() -> int:
    """Exit code 0; 1 when one of the episodes cannot be made here."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--list", action="store_true", help="the episodes")
    parser.add_argument("--all", action="store_true", help="the truth of every episode, without the steps")
    parser.add_argument("--whole", action="store_true", help="every step, not only those around the window")
    parser.add_argument("--clean-runs", type=int, default=1, metavar="N", help="clean runs to pair with (1)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="episodes")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in EPISODES]
    if unknown or not (asked.list or asked.all or asked.names):
        parser.error(f"no episode is called {unknown[0]}" if unknown else "a name, --all or --list")
    if asked.list:
        print("\n".join(map(listed, EPISODES.values())))
        return 0
    built()
    code = 0
    for name in EPISODES if asked.all else asked.names:
        episode = EPISODES[name]
        try:
            truth = measure(episode, asked.clean_runs)
        except NotPossible as reason:
            print(f"{name}: not possible here: {reason}")
            code = 1
            continue
        if asked.all:
            print(f"{name:24}", "; ".join(summary(truth, rank) for rank in truth.ranks()), flush=True)
        else:
            print(table(episode, truth, is_whole=asked.whole), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
