"""A program that calls one library, which forwards each call by a jump to another library with the same functions."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "kernel" / "passed_on.c"
FIRST, SECOND = "libcudart.so.12", "libcudart.so.11.0"


def compiled(folder: Path) -> Path:
    """The program; FIRST and SECOND are beside it."""
    first, second, program = folder / FIRST, folder / SECOND, folder / "program"
    where = f"-Wl,-rpath,{folder}"
    for target, arguments in (
        (second, ("-DSECOND", "-shared", "-fPIC", "-Wl,-Bsymbolic")),
        (first, ("-DFIRST", "-shared", "-fPIC", second, where)),
        (program, (first, second, where)),
    ):
        subprocess.run(["cc", "-O2", "-Wall", "-Werror", SOURCE, "-o", target, *arguments], check=True)
    return program


@dataclass
class Caller:
    process: subprocess.Popen[str]

    def make(self) -> None:
        """Let it make its calls, and wait until they are made; it stays running."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextmanager
def caller(program: Path, calls: int, environment: Mapping[str, str] | None = None) -> Iterator[Caller]:
    """The program, which records so many events; killed when the block is left."""
    process = subprocess.Popen(
        [program, str(calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield Caller(process)
        finally:
            process.kill()
