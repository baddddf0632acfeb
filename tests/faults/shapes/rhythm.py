"""`python -m tests.faults.shapes.rhythm [NAME...]`: the steps that the exporter counts, beside those of each shape's own log."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.injectors import NotPossible
from tests.faults.shapes import SHAPES, Shape
from tests.faults.shapes.running import running
from tests.support import exporter_process
from tests.support.exposition import Scrape

TRAINING = "gpustall_step_duration_seconds"
SERVING = "gpustall_engine_step_duration_seconds"
WARM_UP_STEPS = 5


def milliseconds(scrape: Scrape, name: str) -> str:
    """The mean length of the steps that it counts."""
    count = scrape.total(f"{name}_count")
    return f"{1000 * scrape.total(f'{name}_sum') / count:9.2f} ms" if count else ""


def row(shape: Shape, seconds: float) -> str:
    """What the exporter counted while the shape ran for so long, over all ranks."""
    with (
        exporter_process.running() as exporter,
        tempfile.TemporaryDirectory(prefix="gpu-stall-shape-") as folder,
        running(shape, Path(folder)) as run,
    ):
        run.wait_for_steps(WARM_UP_STEPS)
        time.sleep(seconds)
        scrape, logged = exporter.scrape(), run.steps()
    own = 1000 * sum(step.seconds for step in logged) / len(logged)
    counted = "".join(
        f"{int(scrape.total(f'{name}_count')):8}{milliseconds(scrape, name):>13}" for name in (TRAINING, SERVING)
    )
    return f"{shape.name:26}{len(logged):8}{own:10.2f} ms{counted}"


def main() -> int:
    """Exit code 1 when a shape is not possible here."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.shapes.rhythm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=12.0, help="length of each run (12)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="shapes (all)")
    flags = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the job that runs is ended
    print(f"{'shape':26}{'logged':>8}{'mean':>13}{'training':>8}{'mean':>13}{'serving':>8}{'mean':>13}")
    code = 0
    for name in flags.names or SHAPES:
        try:
            print(row(SHAPES[name], flags.seconds), flush=True)
        except NotPossible as reason:
            print(reason, file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
