"""A server somebody else wrote, as a process of its own that says in its log where it listens."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.traced import eventually

PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Server:
    """A running server. address: host and port, as it said them."""

    address: str
    _log: Path

    @property
    def logs(self) -> str:
        """What it has logged so far."""
        return self._log.read_text()


@contextmanager
def listening(command: Sequence[str | Path], said: str, folder: Path) -> Iterator[Server]:
    """The server, once it listens on every socket it will; ended when the block is left.

    said: what its log matches then, the address as its first group. folder: where it runs and logs.
    """
    log = folder / "log"
    with log.open("wb") as to:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True
        )

    def found() -> re.Match[str] | None:
        assert process.poll() is None, f"{command[0]} has ended: {log.read_text()[-2000:]}"
        return re.search(said, log.read_text(), re.DOTALL)

    try:
        match: re.Match[str] = eventually(found, f"{command[0]} listens", PATIENCE_SECONDS)
        yield Server(match[1], log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
