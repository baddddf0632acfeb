"""Reads small files through a process that can be given up: a certificate may lie on a server that does not answer.

In: a path. Out: its content. Partner: file_program.py.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from exporter.errors import NoAnswer
from exporter.host.capabilities import READING
from exporter.host.child_process import ChildProcess

MODULE: Final = "exporter.host.file_program"


class PatientFiles:
    """patience_seconds: how long a read may take. While one hangs, all fail at once."""

    def __init__(self, patience_seconds: float) -> None:
        self._child = ChildProcess(MODULE, (), READING)
        self._patience_seconds = patience_seconds
        self._hanging: subprocess.Popen[bytes] | None = None

    def read(self, path: Path, limit_bytes: int) -> bytes:
        """The content of a regular file. Raises OSError if it does not answer, ValueError if it cannot be read or is longer."""
        if self._hanging is not None and self._hanging.poll() is None:
            raise TimeoutError(f"{path} does not answer")
        try:
            content = self._child.ask([str(path), limit_bytes], self._patience_seconds).content
        except NoAnswer:
            self._hanging = self._child.given_up
            raise TimeoutError(f"{path} does not answer") from None
        if isinstance(content, str):
            return content.encode("latin-1")
        raise ValueError(str(content["error"]) if isinstance(content, dict) else "an answer of another form")

    def close(self) -> None:
        self._child.close()
