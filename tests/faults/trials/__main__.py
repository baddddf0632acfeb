"""`python -m tests.faults.trials [--seed N] [--count N]`: jobs of many shapes with faults and decoys that the seed chooses.

Prints a row for each trial, and the figures of tuned and held-out shapes apart. Exit code: 1 when a trial failed that should run
on this machine; figures never fail it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from tests.faults.injectors import NotPossible
from tests.faults.recorder import private_standin
from tests.faults.shapes import SHAPES
from tests.faults.shapes.shape import InsideFault, Shape
from tests.faults.trials.live import play_live
from tests.faults.trials.outside.registry import OUTSIDE
from tests.faults.trials.plan import Decoys, PlannedTrial, Planner
from tests.faults.trials.score import Case, score
from tests.faults.trials.table import CASE_HEAD, case_row, figures
from tests.faults.trials.trial import SUFFIX, Trial, load, play, save
from tests.support.standin_gpu import built

COUNT = 40


class Results:
    """Cases so far, how many trials were left out since the machine had other work, and how many failed."""

    def __init__(self) -> None:
        self.cases: list[Case] = []
        self.failed = 0
        self.left_out = 0

    def add(self, trial: Trial) -> list[Case]:
        """Compares it; prints a row for each of its parts."""
        try:
            cases = score(trial)
        except ValueError as reason:
            self.fail(trial.planned, str(reason))
            return []
        for case in cases:
            if case.truth.is_settled:
                self.cases.append(case)
            else:
                self.left_out += 1
            print(case_row(case), flush=True)
        return cases

    def fail(self, planned: PlannedTrial, reason: str) -> None:
        """The rig did not do what it should."""
        self.failed += 1
        print(f"| {planned.name} | failed: {reason} |", flush=True)

    def table(self) -> str:
        """The figures."""
        table = figures(
            [case for case in self.cases if not SHAPES[case.planned.shape].is_held_out],
            [case for case in self.cases if SHAPES[case.planned.shape].is_held_out],
        )
        return f"{table}\n\nleft out: {self.left_out}, failed: {self.failed}"


def shapes_of(kind: str) -> list[Shape]:
    """kind: tuned, held-out, all, or the name of one."""
    if kind in SHAPES:
        return [SHAPES[kind]]
    return [shape for shape in SHAPES.values() if kind == "all" or shape.is_held_out == (kind == "held-out")]


def planned_trials(
    seed: int, count: int, kind: str, fault: str | None, *, decoys: Decoys = Decoys.HALF, is_crowded: bool = False
) -> list[PlannedTrial]:
    """As the seed chooses."""
    planner = Planner(seed, shapes_of(kind), OUTSIDE)
    trials = planner.trials(count, decoys) if fault is None else planner.only(fault, count)
    return [replace(planned, is_crowded=is_crowded) for planned in trials]


def recorded(plan: Iterable[PlannedTrial], results: Results, out: Path | None, *, is_live: bool) -> None:
    """Runs the trials. is_live: each one a second time under the exporter itself."""
    built()
    with tempfile.TemporaryDirectory() as folder:
        libraries = private_standin(Path(folder))
        for planned in plan:
            try:
                trial = play(planned, libraries)
                if out is not None:
                    save(trial, out)
                cases = results.add(trial)
                if is_live and cases:
                    for case, live in zip(cases, score(play_live(planned, libraries)), strict=True):
                        print(agreement(case, live), flush=True)
            except NotPossible as reason:
                print(f"| {planned.name} | not possible here: {reason} |", flush=True)
            except (RuntimeError, TimeoutError) as reason:
                results.fail(planned, str(reason))


def agreement(replayed: Case, live: Case) -> str:
    """One line: whether the exporter reported what its replay says."""
    first, other = (case.reported[0].chain.cause.value if case.reported else "nothing" for case in (replayed, live))
    longer = f"steps longer by {replayed.truth.impact:.0%} and {live.truth.impact:.0%}"
    return f"| live | {'agrees' if first == other else 'differs'}: replay {first}, live {other}; {longer} |"


def replayed(folder: Path, shapes: Sequence[Shape]) -> Iterator[Trial]:
    """Trials that were kept, of these shapes."""
    names = {shape.name for shape in shapes}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        trial = load(path)
        if trial.planned.shape in names:
            yield trial


def any_seed() -> int:
    """Another one each time."""
    return time.time_ns() % 1_000_000


def run(
    seed: int,
    count: int,
    *,
    kind: str = "all",
    fault: str | None = None,
    out: Path | None = None,
    is_live: bool = False,
    decoys: Decoys = Decoys.HALF,
    is_crowded: bool = False,
    in_sequence: bool = False,
) -> int:
    """Prints rows and figures. Exit code: 1 when a trial failed."""
    began_at = time.monotonic()
    results = Results()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    if in_sequence:
        plan = list(Planner(seed, shapes_of(kind), OUTSIDE).sequences(count))
    else:
        plan = planned_trials(seed, count, kind, fault, decoys=decoys, is_crowded=is_crowded)
    print(f"\n{len(plan)} trials, live: --trials {count} --seed {seed}.\n\n{CASE_HEAD}", flush=True)
    before = signal.signal(signal.SIGTERM, end)
    try:
        recorded(plan, results, out, is_live=is_live)
    finally:
        signal.signal(signal.SIGTERM, before)
    print(f"\n{results.table()}\n\nin {(time.monotonic() - began_at) / 60:.1f} min")
    return 1 if results.failed else 0


def end(*_: object) -> NoReturn:
    """At SIGTERM: what faults have done is undone on the way out."""
    sys.exit(143)


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.trials", description=__doc__)
    parser.add_argument("--seed", type=int, default=any_seed(), help="chooses the trials (at random)")
    parser.add_argument("--count", type=int, default=COUNT, metavar="N", help=f"how many trials ({COUNT})")
    parser.add_argument("--shapes", default="all", help="tuned, held-out, all, or the name of one (all)")
    parser.add_argument("--fault", metavar="NAME", help="only this fault or decoy")
    parser.add_argument(
        "--decoys", type=Decoys, choices=list(Decoys), default=Decoys.HALF, help="how many of them (half)"
    )
    parser.add_argument(
        "--crowded", action="store_true", help="beside 200 short programs a minute, each with another name"
    )
    parser.add_argument(
        "--in-sequence", action="store_true", help="each trial has 6 to 12 faults and decoys, in one job"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep the recordings there")
    parser.add_argument("--replay", type=Path, metavar="DIR", help="compare the recordings there, run nothing")
    parser.add_argument("--live", action="store_true", help="run each trial again under the exporter, and compare both")
    parser.add_argument("--list", action="store_true", help="faults and decoys from outside")
    asked = parser.parse_args()
    if asked.shapes not in ("tuned", "held-out", "all", *SHAPES):
        parser.error(f"no shape is called {asked.shapes}")
    if asked.fault not in (None, *OUTSIDE, *InsideFault):
        parser.error(f"no fault is called {asked.fault}")
    return asked


def main() -> int:
    """Prints the tables."""
    asked = arguments()
    if asked.list:
        for fault in OUTSIDE.values():
            print(f"{fault.name:24}{'+'.join(sorted(fault.causes)) or 'none':28}{fault.says}")
        return 0
    if asked.replay is None:
        return run(
            asked.seed,
            asked.count,
            kind=asked.shapes,
            fault=asked.fault,
            out=asked.out,
            is_live=asked.live,
            decoys=asked.decoys,
            is_crowded=asked.crowded,
            in_sequence=asked.in_sequence,
        )
    results = Results()
    print(f"Replay of what was recorded in {asked.replay.name}: no program runs.\n\n{CASE_HEAD}", flush=True)
    for trial in replayed(asked.replay, shapes_of(asked.shapes)):
        results.add(trial)
    print(f"\n{results.table()}")
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
