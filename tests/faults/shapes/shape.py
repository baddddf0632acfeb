"""A shape: a job with a program of its own, and what can go wrong inside it."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.injectors import NotPossible

PYTHON = "/usr/bin/python3"
"""Debian's interpreter, for which python3-torch and python3-numpy are packaged."""

PROGRAMS = Path(__file__).with_name("programs")
BUILD = Path(__file__).with_name("build")

TORCH = ("/usr/lib/python3/dist-packages/torch/__init__.py:python3-torch",)
NUMPY = ("/usr/lib/python3/dist-packages/numpy/__init__.py:python3-numpy",)
COMPILER = ("g++:g++",)


class InsideFault(enum.StrEnum):
    """What a program brings about while FAULT_FILE names it."""

    GIL = "gil"  # another thread holds the interpreter's lock
    LOCK_HOLDER_SLEEPS = "lock-holder-sleeps"
    LOCK_HOLDER_COMPUTES = "lock-holder-computes"
    FILE_LOCK = "file-lock"  # held by another process
    GC = "gc"  # collections of Python's garbage
    SLEEP = "sleep"
    PYTHON = "python"  # computes in the step
    SUBPROCESS = "subprocess"  # waits for a command
    CHECKPOINT = "checkpoint"  # written and synced in each step
    EPOLL = "epoll"  # waits for an event that comes late
    RECOMPILATION = "recompilation"  # traces, loads a module and captures a graph again
    CHURN = "churn"  # cudaMalloc and cudaFree
    PAGEABLE_COPY = "pageable-copy"
    SLOW_GPU = "slow-gpu"
    STRAGGLER = "straggler"  # one rank is late for the collectives
    HANG = "hang"  # a rank does not enter a collective
    LOG_PIPE = "log-pipe"  # writes to a pipe whose reader is slow
    WORKER_SLEEPS = "worker-sleeps"
    WORKER_COMPUTES = "worker-computes"
    WORKER_READS_DISK = "worker-reads-disk"
    WORKER_FAULTS_PAGES = "worker-faults-pages"
    PAUSE = "pause"  # 0.7 s every 40 steps

    BATCH_SIZE = "batch-size"  # a lasting change
    LONGER_SEQUENCES = "longer-sequences"  # 5 % longer kernels after a minute
    EVALUATION = "evaluation"  # other steps for 8 s, which are not logged
    MORE_LOGGING = "more-logging"  # harmless
    FEWER_REQUESTS = "fewer-requests"  # of a server
    MORE_REQUESTS = "more-requests"


DECOYS = frozenset(
    {InsideFault.BATCH_SIZE, InsideFault.LONGER_SEQUENCES, InsideFault.EVALUATION, InsideFault.MORE_LOGGING}
    | {InsideFault.FEWER_REQUESTS, InsideFault.MORE_REQUESTS}
)
"""What a job does on purpose."""


@dataclass(frozen=True)
class Shape:
    """A job with its own program.

    step_seconds: about, on an idle machine of 2 CPUs. needs: as deploy/packages.sh takes them, file-or-command:package.
    source: of a program in C++, in PROGRAMS; the command begins with what ready() builds from it, with these flags besides.
    has_pauses: between its steps it waits for its users.
    is_held_out: its figures are reported apart, and the detection is not changed by what they show. Once it is, the shape is a
    tuned one.
    """

    name: str
    says: str
    command: tuple[str, ...]
    step_seconds: float
    offers: frozenset[InsideFault]
    ranks: int = 1
    has_pauses: bool = False
    is_held_out: bool = False
    needs: tuple[str, ...] = ()
    source: str = ""
    flags: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[InsideFault, ...]:
        """What goes wrong inside, in the order of InsideFault."""
        return tuple(kind for kind in InsideFault if kind in self.offers - DECOYS)

    @property
    def decoys(self) -> tuple[InsideFault, ...]:
        """What is done on purpose, in the order of InsideFault."""
        return tuple(kind for kind in InsideFault if kind in self.offers & DECOYS)


def missing(shape: Shape) -> list[str]:
    """Debian packages that the shape needs and that are not installed."""
    found = []
    for need in shape.needs:
        what, _, package = need.partition(":")
        if not (Path(what).exists() if what.startswith("/") else shutil.which(what)):
            found.append(package)
    return found


def ready(shape: Shape) -> None:
    """Build what the shape needs built. Raises NotPossible, which names the packages to install."""
    packages = missing(shape)
    if packages:
        raise NotPossible(f"{shape.name} needs {' '.join(packages)}: apt-get install {' '.join(packages)}")
    if shape.source:
        _compile(PROGRAMS / shape.source, Path(shape.command[0]), shape.flags)


def _compile(source: Path, program: Path, flags: Sequence[str]) -> None:
    import gpustall_standin as standin

    newest = max(path.stat().st_mtime for path in (source, *PROGRAMS.glob("*.h")))
    if program.exists() and program.stat().st_mtime > newest:
        return
    program.parent.mkdir(exist_ok=True)
    libraries = standin.build_dir()
    line = [
        "g++",
        "-O2",
        "-g",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        *flags,
        f"-I{standin.source_dir() / 'src'}",
    ]
    line += [
        str(source),
        "-o",
        str(program),
        f"-L{libraries}",
        "-l:libcudart.so.12",
        "-l:libcuda.so.1",
        "-l:libnccl.so.2",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotPossible(f"cannot build {source.name}: {done.stderr.strip()}")


def environment(folder: Path, libraries: Path, seed: int = 1, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a shape's program. folder: of its files. libraries: the folder of the stand-in's libraries."""
    return {
        **(os.environ if base is None else base),
        "LD_LIBRARY_PATH": str(libraries),
        "STEP_LOG": str(folder / "steps.jsonl"),
        "FAULT_FILE": str(folder / "fault.json"),
        "SEED": str(seed),
        "OMP_NUM_THREADS": "1",  # tensors stand for those on a GPU: the CPU's cost is not part of the shape
        "PYTHONDONTWRITEBYTECODE": "1",
    }
