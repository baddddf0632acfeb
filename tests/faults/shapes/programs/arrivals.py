"""Requests of a server's clients, which are another process."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

_CLIENTS = Path(__file__).with_name("clients.py")


class Arrivals:
    """The requests that have come, each a number of tokens to make."""

    def __init__(self, load: str) -> None:
        """load: of clients.py."""
        reading, writing = os.pipe()
        # Not a child, which would be a worker of the job. They end when the pipe does.
        subprocess.run(["setsid", "--fork", sys.executable, str(_CLIENTS), load], stdout=writing, check=True)
        os.close(writing)
        self._pipe = reading
        self._poll = select.poll()
        self._poll.register(reading, select.POLLIN)
        self._rest = b""

    def fileno(self) -> int:
        """For an event loop: readable when there is a request."""
        return self._pipe

    def take(self, *, waits: bool) -> list[int]:
        """New requests. waits: until there is one."""
        if not self._poll.poll(None if waits else 0):
            return []
        *lines, self._rest = (self._rest + os.read(self._pipe, 65536)).split(b"\n")
        return [json.loads(line)["tokens"] for line in lines]
