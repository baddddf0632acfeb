"""`python -m tests.faults.shapes`: lists the shapes. `--try [NAME...]`: runs each alone, clean and with what it offers."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, quantiles

from tests.faults.injectors import NotPossible
from tests.faults.shapes import SHAPES, InsideFault, Shape
from tests.faults.shapes.running import LoggedStep, Running, running

WARM_UP_STEPS = 40
SETTLE_SECONDS = 0.5  # a fault is on from the next step on, and a loader has batches in advance


def listed(shape: Shape) -> str:
    """One line about a shape."""
    kind = "held out" if shape.is_held_out else "tuned"
    return f"{shape.name:26}{shape.step_seconds * 1000:7.0f} ms  {shape.ranks} rank(s)  {kind:9}{shape.says}"


def spread(seconds: Sequence[float]) -> float:
    """Distance of the quartiles as a share of the median."""
    first, middle, third = quantiles(seconds, n=4)
    return (third - first) / middle


def between(steps: Sequence[LoggedStep], start_ns: int, end_ns: int, rank: int) -> list[float]:
    """Lengths of the rank's steps that lie in this time."""
    return [step.seconds for step in steps if step.rank == rank and start_ns <= step.start_ns and step.end_ns <= end_ns]


def observed(run: Running, seconds: float) -> list[float]:
    """Lengths of the steps of rank 0 in the next seconds."""
    start_ns = time.monotonic_ns()
    time.sleep(seconds)
    return between(run.steps(), start_ns, time.monotonic_ns(), 0)


def try_shape(shape: Shape, seconds: float, share: float, kinds: Sequence[InsideFault]) -> None:
    """Prints a line for the clean run and for each fault."""
    with tempfile.TemporaryDirectory(prefix="gpu-stall-shape-") as folder, running(shape, Path(folder)) as run:
        run.wait_for_steps(min(WARM_UP_STEPS, int(8 / shape.step_seconds) + 1))
        clean = observed(run, seconds)
        tail = f"quartiles {100 * spread(clean):.1f} % apart" if len(clean) > 2 else "too few steps"
        print(f"{shape.name:26}{'clean':22}{len(clean):6} steps {1000 * median(clean):9.2f} ms  {tail}", flush=True)
        for kind in kinds or shape.faults + shape.decoys:
            with run.fault(kind, share):
                time.sleep(SETTLE_SECONDS + 4 * shape.step_seconds)
                faulty = observed(run, seconds)
            impact = f"{100 * (median(faulty) / median(clean) - 1):+7.0f} %" if faulty else "  no step"
            mean = f"{100 * (fmean(faulty) / fmean(clean) - 1):+7.0f} %" if faulty else ""
            length = f"{1000 * median(faulty):9.2f} ms" if faulty else ""
            print(f"{'':26}{kind:22}{len(faulty):6} steps {length}  median {impact}  mean {mean}", flush=True)
            time.sleep(SETTLE_SECONDS + 4 * shape.step_seconds)
        again = observed(run, min(seconds, 2.0))
        last = f"{1000 * median(again):9.2f} ms" if again else ""
        print(f"{'':26}{'clean again':22}{len(again):6} steps {last}  ended in {run.stop():.2f} s", flush=True)


def main() -> int:
    """Exit code 1 when a shape is not possible here."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.shapes", description=__doc__)
    parser.add_argument("--try", dest="tried", nargs="*", metavar="NAME", help="run these shapes, or all")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each run (5)")
    parser.add_argument("--share", type=float, default=0.5, help="by which part steps become longer (0.5)")
    parser.add_argument("--kind", nargs="*", type=InsideFault, default=[], metavar="KIND", help="only these faults")
    flags = parser.parse_args()
    unknown = [name for name in flags.tried or () if name not in SHAPES]
    if unknown:
        parser.error(f"no shape is called {unknown[0]}")
    if flags.tried is None:
        print("\n".join(map(listed, SHAPES.values())))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the job that runs is ended
    code = 0
    for name in flags.tried or SHAPES:
        try:
            try_shape(SHAPES[name], flags.seconds, flags.share, flags.kind)
        except NotPossible as reason:
            print(reason, file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
