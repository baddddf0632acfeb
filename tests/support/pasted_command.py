"""Runs a command line as root would who pastes it, with stand-ins for all programs: they record their arguments and do nothing.

In: a command line. Out: the arguments of each program that it ran. The working directory is a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_RECORDER = """#!{bash} -p
printf '%s\\0' "${{0##*/}}" "$@" >{log}/$$
"""
_NO_BUILTINS = "enable -n kill\n"
_TIMEOUT_SECONDS = 20.0


class Terminal:
    """folder: an empty one. programs: the only ones that a command finds."""

    def __init__(self, folder: Path, programs: Iterable[str]) -> None:
        self._bash = shutil.which("bash") or "/bin/bash"
        self._log = folder / "log"  # a file of each process, since those of a pipe run at the same time
        self._place = folder / "place"
        self._place.mkdir()
        self._path = folder / "bin"
        self._path.mkdir()
        for name in programs:
            stub = self._path / name
            stub.write_text(_RECORDER.format(bash=self._bash, log=self._log), encoding="utf-8")
            stub.chmod(0o755)

    def paste(self, command: str) -> list[list[str]]:
        """The programs that ran, each with its arguments, sorted, since a pipe runs them in any order. bash must not complain."""
        shutil.rmtree(self._log, ignore_errors=True)
        self._log.mkdir()
        environment = {"PATH": str(self._path), "HOME": str(self._place), "LC_ALL": "C.UTF-8"}
        for arguments in (["-n"], []):
            done = subprocess.run(
                [self._bash, "--norc", *arguments, "-c", os.fsencode(f"{_NO_BUILTINS}{command}")],
                cwd=self._place,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
            assert not done.stderr, (command, done.stderr)
        return sorted(os.fsdecode(one.read_bytes()).split("\0")[:-1] for one in self._log.iterdir())

    @property
    def made(self) -> list[str]:
        """Files that appeared in the working directory."""
        return sorted(path.name for path in self._place.iterdir())
