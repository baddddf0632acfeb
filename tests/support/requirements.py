"""What tests in the running kernel need; where it is missing they are skipped with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host import libraries
from exporter.host.processes import Processes
from exporter.kernel.loader import BTF, OBJECTS_DIR
from tests.support.traced import eventually

ROOT = Path(__file__).parent.parent.parent


def need_tracing() -> None:
    """Root and BTF; the programs and the stand-in are built if they are not there."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to load BPF programs: sudo make test")
    if not BTF.exists():
        pytest.skip(f"needs a kernel with BTF ({BTF})")
    if not standin.is_built():
        subprocess.run(["make", "-s", "-C", str(standin.source_dir())], check=True, capture_output=True)
    if not (OBJECTS_DIR / "nccl.bpf.o").exists():
        subprocess.run(["make", "-s", "-C", str(ROOT / "bpf")], check=True, capture_output=True)


def need_command(name: str, package: str) -> str:
    """The path of a program."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: install the package {package}")
    return found


def cuda_users() -> list[int]:
    """tgids of the processes of this machine that map a CUDA or NCCL library now."""
    processes, found = Processes(), []
    for tgid in processes.tgids():
        try:
            if libraries.find(processes, tgid):
                found.append(tgid)
        except (ProcessGone, NotPossibleHere):
            continue
    return found


def need_no_cuda_users() -> None:
    """No process uses CUDA: only then is the stand-in job started. One that an earlier test ended may take a moment to exit."""
    try:
        eventually(lambda: not cuda_users(), "no process uses CUDA", patience_seconds=5)
    except AssertionError:
        pytest.skip(f"needs a machine on which no other process uses CUDA: {cuda_users()} do")
