"""`python -m tests.mutants [NUMBER...]`: puts each error into a clone of the committed tree, and runs the gate up to a failure.

In: the committed HEAD. Out: a line for each error with the test that caught it; exit status 1 if more than two were missed.
It needs root, as `make test` does. The tests that are most likely to catch an error run first, then all others of the gate.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
MISSED_MAX = 2
IN_GATE = re.search(r"^IN_GATE\s*:=\s*(.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_KERNEL_FOLDERS = ("tests/kernel", "tests/end_to_end")
_OF_THE_LIST = "tests/contract/test_mutants.py"
"""It fails for each error, because what the error changes is no longer there."""


def _clone(folder: Path) -> Path:
    """A clone of HEAD with an environment of its own: tests import what is changed there."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    subprocess.run(["make", "-s", "build", ".venv/dev"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder


def _commands(mutant: Mutant, clone: Path) -> Iterator[tuple[str, ...]]:
    """Arguments of pytest, the most likely ones first."""
    mirror = Path("tests/unit", *Path(mutant.file).parts[1:2])
    if mutant.first:
        yield mutant.first
    elif (clone / mirror).is_dir():
        yield (str(mirror),)
    if mutant.is_in_kernel:
        yield _KERNEL_FOLDERS
    else:
        yield ("tests/unit", "tests/contract")
        yield _KERNEL_FOLDERS


def _failed(clone: Path, files: Sequence[str]) -> str | None:
    """The first test that fails; None if all pass."""
    assert IN_GATE is not None
    is_side_by_side = files[0].startswith(_KERNEL_FOLDERS)
    runner = (
        ["-m", "tests.side_by_side"]
        if is_side_by_side
        else ["-m", "pytest", "-n", str(len(os.sched_getaffinity(0)) + 1)]
    )
    done = subprocess.run(
        [str(clone / ".venv/bin/python"), *runner, "-q", "-x", "-m", IN_GATE[1], f"--ignore={_OF_THE_LIST}", *files],
        cwd=clone,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return None
    found = _FAILED.search(done.stdout)
    return found[1] if found else f"exit status {done.returncode}: {done.stdout.strip().rpartition(chr(10))[2]}"


def _caught_by(mutant: Mutant, clone: Path) -> str | None:
    path = clone / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        if mutant.is_in_kernel:
            built = subprocess.run(["make", "-s", "-C", "bpf"], cwd=clone, check=False, capture_output=True)
            if built.returncode != 0:
                return "the build"
        return next(filter(None, (_failed(clone, files) for files in _commands(mutant, clone))), None)
    finally:
        path.write_text(text, encoding="utf-8")
        if mutant.is_in_kernel:
            subprocess.run(["make", "-s", "-C", "bpf"], cwd=clone, check=True)


def main() -> int:
    """Exit status: 1 if the gate misses more errors than it may."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Say which errors the gate catches.")
    parser.add_argument("numbers", nargs="*", type=int, help="only these errors, counted from 1")
    known = mutants()
    wanted = parser.parse_args().numbers or range(1, len(known) + 1)
    missed = 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        clone = _clone(Path(folder, "clone"))
        for number in wanted:
            mutant, began = known[number - 1], time.monotonic()
            caught_by = _caught_by(mutant, clone)
            missed += caught_by is None
            change = " ".join(mutant.after.split()) or "(nothing)"
            print(
                f"{number:2} {mutant.file}: {change}\n   {caught_by or 'MISSED'}  {time.monotonic() - began:.0f} s",
                flush=True,
            )
    print(f"{len(wanted) - missed} of {len(wanted)} errors caught")
    return int(missed > MISSED_MAX)


if __name__ == "__main__":
    sys.exit(main())
