"""Programs of several users that fill the tables of the kernel programs: tests/kernel/greedy.c under real probes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from exporter.kernel.abi import Api
from tests.support.traced import Tracer

SOURCE = Path(__file__).parent.parent / "kernel" / "greedy.c"
RUNTIME = (
    "cudaMalloc",
    "cudaHostAlloc",
    "cudaFree",
    "cudaEventRecord",
    "cudaMemcpy",
    "cudaMemcpy2D",
    "cudaGraphInstantiate",
    "cudaStreamBeginCapture",
)
NCCL = ("ncclCommInitRank", "ncclAllReduce")
OTHER_USER = 65534
"""A user without privileges."""


@contextmanager
def compiled() -> Iterator[Path]:
    """The program, in a folder that every user may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    try:
        program = folder / "greedy"
        subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-rdynamic", SOURCE, "-o", program], check=True)
        yield program
    finally:
        shutil.rmtree(folder)


@contextmanager
def compiled_with_libraries() -> Iterator[Path]:
    """The program with libraries of its own, which are found by their names."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    flags = ("cc", "-O2", "-Wall", "-Werror", f"-Wl,-rpath,{folder}")
    libraries = {"RUNTIME": folder / "libcudart.so.12", "NCCL": folder / "libnccl.so.2"}
    try:
        for part, library in libraries.items():
            named = (f"-DPARTS={part}", "-shared", "-fPIC", f"-Wl,-soname,{library.name}")
            subprocess.run([*flags, *named, SOURCE, "-o", library], check=True)
        program = folder / "greedy"
        subprocess.run([*flags, "-DPARTS=PROGRAM", SOURCE, *libraries.values(), "-o", program], check=True)
        yield program
    finally:
        shutil.rmtree(folder)


def attach(traced: Tracer, program: Path) -> None:
    """Probe the program's own functions."""
    traced.attach(Api.RUNTIME, program, RUNTIME)
    traced.attach(Api.NCCL, program, NCCL)


@contextmanager
def running(
    program: Path, *orders: str, user: int = 0, around: Sequence[str] = (), rank: int | None = None
) -> Iterator[int]:
    """The program after it has done its orders, alive; gives its tgid. around: a command that starts it. rank: that it claims."""
    process = subprocess.Popen(
        [*around, program, *orders],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=user,
        group=user,
        env={} if rank is None else {"RANK": str(rank)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
