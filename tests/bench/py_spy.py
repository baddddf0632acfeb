"""Frames of blocked threads, by py-spy and by the exporter, beside what each interpreter says about its own.

usage: python -m tests.bench.py_spy PY_SPY

PY_SPY: the program of the package of that name on PyPI, which is not among the packages of this project. Prints one line for each
version of Python: how many stacks each has got wrong, and the first one that py-spy does not have.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.held_python import Target, as_reported, build_library, probe, running
from tests.support.interpreters import VERSIONS
from tests.support.traced import tracer

ROUNDS, THREADS = 20, 50

Stack = list[list[Any]]
"""[file, qualified name, line], innermost first."""
Shown = tuple[tuple[str, str, int], ...]


def main() -> int:
    """Returns 0 if the exporter's stacks are all right."""
    py_spy = sys.argv[1]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, tracer() as traced:
        library = build_library(Path(folder))
        probe(traced, library)
        for version in VERSIONS:
            with running(traced, library, version) as target:
                own, other, difference = _compared(target, py_spy)
            print(f"{version}: {ROUNDS * THREADS} stacks, wrong: {own}; by py-spy: {other} {difference}", flush=True)
            wrong += own
    return min(wrong, 1)


def _compared(target: Target, py_spy: str) -> tuple[int, int, str]:
    """(wrong stacks of ours, of py-spy's, the first of those that it lacks)."""
    own = other = 0
    difference = ""
    for number in range(ROUNDS):
        reported: dict[str, Stack] = target.ask(f"hold {THREADS} {number}")
        if not number:
            target.prepare()
        missing = Counter(map(_shown_by_py_spy, reported.values())) - _dumped(py_spy, target.tgid)
        for tid, expected in reported.items():
            stack = target.stacks.of_thread(target.tgid, int(tid))
            own += stack is None or as_reported(stack.frames) != expected
        other += missing.total()
        difference = difference or next(map(str, missing), "")
        target.ask("release")
    return own, other, difference


def _dumped(py_spy: str, tgid: int) -> Counter[Shown]:
    """Stacks of all threads. Not by thread: py-spy does not have the numbers of threads before 3.11."""
    done = subprocess.run([py_spy, "dump", "--json", "--pid", str(tgid)], capture_output=True, text=True, check=True)
    threads = json.loads(done.stdout)
    return Counter(_shown_by_py_spy([[f["filename"], f["name"], f["line"]] for f in one["frames"]]) for one in threads)


def _shown_by_py_spy(stack: Stack) -> Shown:
    """Names of functions without those of their classes."""
    return tuple((file, name.rpartition(".")[2], line) for file, name, line in stack)


if __name__ == "__main__":
    sys.exit(main())
