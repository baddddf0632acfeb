"""Builds what is measured: a library of functions that return at once, and programs that call them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from exporter.kernel.abi import Api
from exporter.kernel.operations import OPERATIONS

HERE = Path(__file__).parent
BUILD = HERE.parent.parent / "build" / "bench"
LIBRARY = BUILD / "libcudart.so.12"
DRIVER = BUILD / "libcuda.so.1"
FRAMES_LIBRARY = BUILD / "libframes.so"
# The first is the hot one. All of the runtime's, and of the driver's as many as make 40 operations.
RUNTIME_FUNCTIONS = (
    "cudaEventQuery",
    *(o.name for o in OPERATIONS if o.api is Api.RUNTIME and o.name != "cudaEventQuery"),
)
DRIVER_FUNCTIONS = tuple(o.name for o in OPERATIONS if o.api is Api.DRIVER)[: 40 - len(RUNTIME_FUNCTIONS)]
FUNCTIONS = RUNTIME_FUNCTIONS + DRIVER_FUNCTIONS


def build() -> None:
    """Compile the library, the caller and the programs compared with; a second or two."""
    BUILD.mkdir(parents=True, exist_ok=True)
    # Not optimised, so that each begins with `push %rbp` as real functions do: the kernel emulates it. An instruction that
    # it has to single-step costs 12 us on a virtual machine, which would hide everything else.
    library(DRIVER, DRIVER_FUNCTIONS)
    library(LIBRARY, RUNTIME_FUNCTIONS, DRIVER, "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN")
    _run("cc", "-O0", "-Wall", "-Werror", "-shared", "-fPIC", HERE / "frames.c", "-o", FRAMES_LIBRARY)
    _run("cc", "-O2", "-Wall", "-Werror", HERE / "target.c", "-o", BUILD / "target", "-ldl")
    _run("cc", "-O2", "-Wall", "-Werror", HERE / "switches.c", "-o", BUILD / "switches")
    multiarch = f"/usr/include/{os.uname().machine}-linux-gnu"
    for name in ("empty", "record", "empty_sched", "empty_host"):
        _run(
            *("clang", "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror", f"-I{multiarch}"),
            *("-c", HERE / f"{name}.bpf.c", "-o", BUILD / f"{name}.bpf.o"),
        )


def library(path: Path, functions: tuple[str, ...], *with_flags: str | Path) -> None:
    """Compile a library of functions that return 0."""
    source = path.with_suffix(".c")
    source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in functions))
    _run("cc", "-O0", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", *reversed(with_flags), source, "-o", path)


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


class Target:
    """A running caller. around: a command that starts it."""

    def __init__(self, functions: Sequence[str] = FUNCTIONS, *, around: Sequence[str] = (), **environment: str) -> None:
        self._process = subprocess.Popen(
            [*around, str(BUILD / "target"), str(LIBRARY), *functions],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=10)

    def begin(self, order: str) -> None:
        """Give an order; several targets can be given theirs before the first is waited for."""
        assert self._process.stdin is not None
        self._process.stdin.write(order + "\n")
        self._process.stdin.flush()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def result(self) -> tuple[int, int]:
        """(calls, ns) of the order given."""
        calls, elapsed_ns = self._answer().split()
        return int(calls), int(elapsed_ns)

    def do(self, order: str) -> tuple[int, int]:
        """Give an order and wait for it."""
        self.begin(order)
        return self.result()
