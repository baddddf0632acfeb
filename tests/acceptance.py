"""`python -m tests.acceptance [--all]`: what `make test` leaves out, one after another, and one table of it.

A row is a command with a bar, the condition that it checks itself. A failure stops nothing. The table is kept as
build/acceptance.json, after each row, and what the commands print as build/acceptance/NAME.log. --all adds the rows that take
more than an hour together. Exit status: 1 when a row has failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "build" / "acceptance.json"
LOGS = ROOT / "build" / "acceptance"
SUMMARY = re.compile(r"^=*\s*((?:\d+ \w+,? ?)+)in [\d.]+s.*$", re.MULTILINE)
NO_TESTS = 5
"""Exit status of pytest when a marker selects nothing."""
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
ALONE = "not (whole_machine or idle_machine or soak or nvidia)"
NO_FAILURE = "no test fails"


@dataclass(frozen=True)
class Row:
    """minutes: the limit, several times what the command takes on an idle machine. is_long: only with --all."""

    name: str
    command: tuple[str, ...]
    bar: str
    minutes: int
    is_long: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """figure: the summary of the tests, or the last line that the command has printed."""

    name: str
    figure: str
    bar: str
    verdict: str
    seconds: int


ROWS = (
    Row(
        "time-and-shares",
        (
            sys.executable,
            "-m",
            "tests.side_by_side",
            "-q",
            "tests",
            "-m",
            f"(acceptance or hardware_speed) and {ALONE}",
        ),
        NO_FAILURE,
        30,
        environment={"TEST_WORKERS": "1"},
    ),
    Row("whole-machine", (*PYTEST, "tests", "-m", "whole_machine and not (idle_machine or soak)"), NO_FAILURE, 30),
    Row("idle-machine", (*PYTEST, "tests", "-m", "idle_machine and not soak"), NO_FAILURE, 20),
    Row("rig", (*PYTEST, "tests/faults", "-m", ALONE), NO_FAILURE, 20),
    Row("faults-and-trials", ("make", "-s", "faults"), "no false alarm or wrong cause, at most one miss", 40),
    Row("conformance", ("make", "-s", "conformance"), NO_FAILURE, 60),
    Row(
        "random-examples",
        (*PYTEST, "-n", "auto", "tests/unit", "tests/contract", "-m", ALONE),
        NO_FAILURE,
        20,
        environment={"HYPOTHESIS_PROFILE": "random"},
    ),
    Row("kernels", ("make", "-s", "test-kernels"), NO_FAILURE, 120, is_long=True),
    Row("release", ("make", "-s", "release", f"OUT={LOGS / 'dist'}"), "a release is made", 30, is_long=True),
    Row("image", ("make", "-s", "image-steps"), "two releases are the same, and the image runs", 60, is_long=True),
    Row("investigations", ("make", "-s", "investigations"), "a client finds the causes", 40, is_long=True),
    Row("nvidia", ("make", "-s", "test-nvidia"), NO_FAILURE, 60, is_long=True),
    Row("soak", ("make", "-s", "soak"), NO_FAILURE, 120, is_long=True),
)


def run(row: Row) -> Result:
    """Run the command of a row. Its output goes to its log."""
    LOGS.mkdir(parents=True, exist_ok=True)
    subprocess.run((sys.executable, "-m", "tests.support.sweep"), cwd=ROOT, check=False)
    began = time.monotonic()
    path = LOGS / f"{row.name}.log"
    with path.open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            row.command, cwd=ROOT, env={**os.environ, **row.environment}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            status = process.wait(60 * row.minutes)
        except subprocess.TimeoutExpired:
            process.terminate()  # what it leaves is removed before the next row
            process.wait()
            status = None
    return result_of(row, status, path.read_text(encoding="utf-8", errors="replace"), time.monotonic() - began)


def result_of(row: Row, status: int | None, output: str, seconds: float) -> Result:
    """status: of the command, None when it was ended at its limit."""
    summaries = SUMMARY.findall(output)
    lines = [line for line in output.splitlines() if line.strip()]
    figure = summaries[-1].strip() if summaries else (lines[-1].strip() if lines else "no output")
    if status is None:
        figure, verdict = f"not done in {row.minutes} minutes", "failed"
    elif status == NO_TESTS or (status == 0 and not summaries and "left out:" in output):
        verdict = "left out"
    else:
        verdict = "passed" if status == 0 else "failed"
    return Result(row.name, figure, row.bar, verdict, round(seconds))


def table(results: Iterable[Result]) -> str:
    """In Markdown."""
    rows = (f"| {one.name} | {one.figure} | {one.bar} | {one.verdict} | {one.seconds} s |" for one in results)
    return "\n".join(("| what | figure | bar | verdict | took |", "| --- | --- | --- | --- | --- |", *rows))


def keep(results: Iterable[Result], path: Path = RESULT) -> None:
    """Write the table as JSON, with the machine and the commit."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    document = {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": asked.stdout.strip(),
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "rows": [asdict(one) for one in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="make acceptance", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also rows that take more than an hour together")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"only these: {', '.join(row.name for row in ROWS)}")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - {row.name for row in ROWS}:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    wanted = [
        row for row in ROWS if (row.name in arguments.rows if arguments.rows else arguments.all or not row.is_long)
    ]
    results: list[Result] = []
    for row in wanted:
        print(f"{row.name}: {LOGS / row.name}.log", flush=True)
        results.append(run(row))
        keep(results)
    print(table(results))
    return int(any(one.verdict == "failed" for one in results))


if __name__ == "__main__":
    sys.exit(main())
