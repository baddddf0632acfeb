"""`python -m tests.side_by_side [ARGUMENT...]`: pytest with a worker for each CPU, in namespaces of its own.

An exporter finds every process of its PID namespace that maps a CUDA or NCCL library, and a probe belongs to a file. A worker has
its own PID namespace, its own copies of the stand-in's libraries and its own CPUs, so tests of two workers do not affect each
other. The tests of a file run in one worker, one after another. support/isolated.sh makes the namespaces.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.kernel.grace_periods import expedited
from tests.support.standin_gpu import built

WORKERS_MAX = 4
ISOLATED = Path(__file__).parent / "support" / "isolated.sh"


def isolated_workers() -> list[str]:
    """Options of pytest-xdist."""
    cpus = sorted(os.sched_getaffinity(0))
    count = min(len(cpus), WORKERS_MAX)
    shares = (",".join(map(str, cpus[number::count])) for number in range(count))
    commands = ((ISOLATED, share, standin.build_dir(), sys.executable) for share in shares)
    return [f"--tx=popen//python={shlex.join(map(str, command))}" for command in commands]


def main() -> int:
    """Exit code of pytest."""
    if os.geteuid() != 0:
        return pytest.main(sys.argv[1:])  # tests that need root are skipped
    built()
    with expedited():  # most of these tests attach probes and remove them
        return pytest.main(["--dist=loadfile", "--no-loadscope-reorder", *isolated_workers(), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
