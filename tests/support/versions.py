"""A library of which there are many versions, and a program that fails when it runs anything else than one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.held_calls import without_rank
from tests.support.patience import PATIENCE_SECONDS, line_of

SOURCE = Path(__file__).parents[1] / "kernel" / "versions.c"
NAME = "libcudart.so.12"


class Versions:
    """Compiled versions by their number, and the program. folder: of all of them."""

    def __init__(self, folder: Path, numbers: range) -> None:
        self._folder = folder
        library = ["cc", "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-DLIBRARY", f"-Wl,-soname,{NAME}", SOURCE]
        for number in numbers:
            subprocess.run([*library, f"-DVERSION={number}", "-o", self[number]], check=True)
        self._program = folder / "versions"
        subprocess.run(["cc", "-O2", "-Wall", "-Werror", SOURCE, self[numbers[0]], "-o", self._program], check=True)

    def __getitem__(self, number: int) -> Path:
        return self._folder / f"version{number}.so"

    def content(self, number: int) -> bytes:
        return self[number].read_bytes()

    def installed(self, folder: Path, number: int) -> Path:
        """A folder with one version as the library that the program loads; returns the library."""
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(self[number], folder / NAME))

    @contextmanager
    def program(self, library: Path, calls: int, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """The program at its line `ready`: the library is mapped, and no call was made. variables: of its environment."""
        process = subprocess.Popen(
            [self._program, str(calls)],
            env={**without_rank(), "LD_LIBRARY_PATH": str(library.parent), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                assert line_of(process) == "ready\n"
                yield process
            finally:
                process.kill()


def made(process: subprocess.Popen[str]) -> str:
    """Let it make its calls: the version that it says it has run, empty if it has failed. It stays."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return line_of(process).strip()


def ended(process: subprocess.Popen[str]) -> int:
    """Let it end after its calls: its exit code."""
    process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode


def overwrite(library: Path, content: bytes) -> None:
    """In place, as `cat new > library` does."""
    with library.open("r+b") as file:
        file.truncate()
        file.write(content)
        os.fsync(file.fileno())
