"""`python -m tests.side_by_side [ARGUMENT...]`: pytest with a worker for each CPU and one more, in namespaces of their own.

An exporter finds every process of its PID namespace that maps a CUDA or NCCL library, and a probe belongs to a file. A worker has
its own PID namespace and its own copies of the stand-in's libraries, so tests of two workers do not affect each other. The tests
of a file run in one worker, one after another. support/isolated.sh makes the namespaces. What an earlier run has left on the
machine is removed first (support/sweep.py).
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

import pytest

import gpustall_standin as standin
from tests.support import sweep
from tests.support.exporter_process import STARTS
from tests.support.standin_gpu import built

WORKERS_MAX = 4
PR_SET_PDEATHSIG = 1
STARTS_MAX = 80
"""Exporters that `make test` may start."""
ISOLATED = Path(__file__).parent / "support" / "isolated.sh"


def isolated_workers() -> list[str]:
    """Options of pytest-xdist. One more than CPUs: the tests of a worker wait for a seventh of the time."""
    count = int(os.environ.get("TEST_WORKERS") or min(len(os.sched_getaffinity(0)) + 1, WORKERS_MAX))
    command = shlex.join(map(str, (ISOLATED, standin.build_dir(), sys.executable)))
    return [f"--tx=popen//python={command}"] * count


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The workers end as after Ctrl-C. make sends the signal again, while they do."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


def main() -> int:
    """Exit code of pytest."""
    if os.geteuid() != 0:
        return pytest.main(sys.argv[1:])  # tests that need root are skipped
    is_outermost = sweep.VARIABLE not in os.environ
    run = sweep.begin_run()
    sweep.sweep(print)
    built()
    signal.signal(signal.SIGTERM, _interrupt)
    # Without the make that started it, it does not go on.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # Most of these tests attach probes and remove them.
    quick = sweep.changed(sweep.EXPEDITED, "1") if os.access(sweep.EXPEDITED, os.W_OK) else nullcontext()
    try:
        with quick, tempfile.NamedTemporaryFile() as starts:
            os.environ[STARTS] = starts.name
            code = pytest.main(["--dist=loadfile", "--no-loadscope-reorder", *isolated_workers(), *sys.argv[1:]])
            are_too_many = _are_too_many(Path(starts.name).read_text().splitlines())
            return code or are_too_many
    finally:
        if is_outermost:
            sweep.sweep(print, ending=run)


def _are_too_many(starts: list[str]) -> bool:
    """An exporter loads and attaches all programs when it starts, and most of the time goes there."""
    print(f"{len(starts)} exporters were started; {STARTS_MAX} may be")
    if len(starts) <= STARTS_MAX:
        return False
    print("share them, by a fixture of the module:", *sorted(starts), sep="\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
