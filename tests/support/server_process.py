"""A third-party server, as a process that logs the address on which it listens."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually


@dataclass(frozen=True)
class Server:
    """A running server. address: host and port, from its log."""

    address: str
    _log: Path

    @property
    def logs(self) -> str:
        """Its log so far."""
        return self._log.read_text()


@contextmanager
def listening(command: Sequence[str | Path], address_pattern: str, folder: Path) -> Iterator[Server]:
    """The server, once it listens on all of its sockets; ended when the block is left.

    address_pattern: matches its log then, with the address as the first group. folder: its working directory and that of its log.
    """
    log = folder / "log"
    with log.open("wb") as to:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True
        )

    def found() -> re.Match[str] | None:
        assert process.poll() is None, f"{command[0]} has ended: {log.read_text()[-2000:]}"
        return re.search(address_pattern, log.read_text(), re.DOTALL)

    try:
        match: re.Match[str] = eventually(found, f"{command[0]} listens")
        yield Server(match[1], log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
