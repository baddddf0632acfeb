"""Work in a child process of bounded memory and CPU time, which can be killed at any moment.

In: a function that yields bytes. Out: these bytes in the parent, or a ChildFailed. A child is a copy of this process (fork), so
that it need not be given what it works on.
"""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

FRAME_BYTES_MAX: Final = 64 << 20
_CONTENT, _END, _FAILURE = b"+", b".", b"!"
_GRACE_SECONDS: Final = 0.05
_FORK: Final = multiprocessing.get_context("fork")

Work = Callable[[], Iterable[bytes]]


class ChildFailed(Exception):
    """kind: the class of the exception in the child; KILLED or LATE if there was none."""

    KILLED: Final = "killed"
    LATE: Final = "late"

    def __init__(self, kind: str, message: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class ChildBounds(NamedTuple):
    """seconds: of time for all of the work. memory_bytes: beyond what this process has. expected: exceptions for the parent."""

    seconds: float
    memory_bytes: int
    expected: tuple[type[Exception], ...]


class Child:
    """A running child. Made by started()."""

    def __init__(self, connection: Connection, until: float) -> None:
        self._connection = connection
        self._until = until

    def contents(self) -> Iterator[bytes]:
        """What the work yields. Raises ChildFailed."""
        while True:
            left_seconds = self._until + _GRACE_SECONDS - time.monotonic()
            try:
                if not self._connection.poll(max(left_seconds, 0.0)):
                    raise ChildFailed(ChildFailed.LATE)
                frame = self._connection.recv_bytes(FRAME_BYTES_MAX)
            except (EOFError, OSError):
                raise ChildFailed(ChildFailed.KILLED) from None
            kind, content = frame[:1], frame[1:]
            if kind == _FAILURE:
                raise ChildFailed(*json.loads(content))
            if kind == _END:
                return
            yield content


@contextmanager
def started(work: Work, bounds: ChildBounds) -> Iterator[Child]:
    """A child that works until the end of the block."""
    receiving, sending = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_serve, args=(work, sending, bounds), daemon=True)
    until = time.monotonic() + bounds.seconds
    process.start()
    sending.close()
    try:
        yield Child(receiving, until)
    finally:
        process.kill()
        process.join()
        receiving.close()


def _serve(work: Work, connection: Connection, bounds: ChildBounds) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it, too, and ends this process
    gc.disable()  # what it makes is in no cycles, and a quarter of the time for decoding went into looking for some
    _restrict(bounds)
    with suppress(OSError):  # the parent has exited
        try:
            for content in work():
                connection.send_bytes(_CONTENT + content)
        except bounds.expected as error:
            connection.send_bytes(_FAILURE + json.dumps([type(error).__name__, str(error)]).encode())
        else:
            connection.send_bytes(_END)


def data_bytes() -> int:
    """What the kernel counts for RLIMIT_DATA now, and the stack: statm in proc(5)."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


def _restrict(bounds: ChildBounds) -> None:
    """No file grows, none is opened, and the process ends although its parent may not be there to end it."""
    lower_limit(resource.RLIMIT_DATA, data_bytes() + bounds.memory_bytes)
    lower_limit(resource.RLIMIT_CPU, math.ceil(bounds.seconds) + 1)
    for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
        lower_limit(limit, 0)


def lower_limit(limit: int, most: int) -> None:
    _, hard = resource.getrlimit(limit)
    lowered = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(limit, (lowered, lowered))
