"""`python -m tests.stages STAGE...`: runs targets of make one after another, all of them also after a failure.

At the end it prints how long each took, and what it may take on two idle CPUs. Exit status: 1 when a stage has failed; a stage
that takes longer than its budget fails nothing.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

BUDGETS_SECONDS = {"check-static": 90, "test-without-kernel": 150, "test-side-by-side": 420}


class Stage(NamedTuple):
    """A stage that has ended."""

    name: str
    seconds: float
    has_passed: bool


def run(name: str) -> Stage:
    """Run a target. Its own children end with it when this process is interrupted or terminated."""
    began = time.monotonic()
    process = subprocess.Popen(("make", "-s", "--no-print-directory", name))
    try:
        status = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return Stage(name, time.monotonic() - began, status == 0)


def report(stages: Iterable[Stage]) -> str:
    """A line for each stage."""
    lines = [f"{'stage':22}{'seconds':>8}{'budget':>8}"]
    for stage in stages:
        budget = BUDGETS_SECONDS[stage.name]
        notes = [note for note, is_so in (("over", stage.seconds > budget), ("FAILED", not stage.has_passed)) if is_so]
        lines.append(f"{stage.name:22}{stage.seconds:8.0f}{budget:8}  {', '.join(notes)}".rstrip())
    return "\n".join(lines)


def main() -> int:
    """The exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        stages = [run(name) for name in sys.argv[1:]]
    except KeyboardInterrupt:
        return 130
    print(report(stages))
    return int(not all(stage.has_passed for stage in stages))


if __name__ == "__main__":
    sys.exit(main())
