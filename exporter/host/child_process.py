"""A program of the exporter's that answers requests in a process of its own, and is given up when it does not answer.

In: requests, in JSON, with descriptors. Out: answers, the same. A thread that reads a file of a file system that does not answer
cannot be interrupted, not even by SIGKILL: a child in that state is left alone, and the next request goes to a new one.
Partner: answering.py, in the child.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from exporter.errors import NoAnswer
from exporter.host import capabilities
from exporter.host.answering import LENGTH, READY, received, send
from exporter.host.capabilities import Capability

ANSWER_BYTES_MAX: Final = 8 << 20
GIVEN_UP_MAX: Final = 8
"""Children that hang at a time. Each is a process with some 9 MiB of its own; 6 MiB more are files that all share."""
START_SECONDS: Final = 5.0
"""How long a child may take to start. It is no part of the patience for an answer."""
FIRST_START_SECONDS: Final = 60.0
"""The same before the exporter serves: nothing waits for it, and on a node without a free CPU every start takes long."""
EXIT_SECONDS: Final = 1.0
_PACKAGE_FOLDER: Final = Path(__file__).parents[2]
_RUN: Final = "import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main()"


class Answer(NamedTuple):
    """content: what json.loads() made of it, of any form. descriptors: the caller closes them."""

    content: Any
    descriptors: list[int]


class ChildProcess:
    """Started at the first request. One thread at a time; end() and close() from any.

    module: has main(), which gets the arguments in sys.argv from the third on; the second is the descriptor of the socket.
    """

    def __init__(self, module: str, arguments: Sequence[str], wanted: Collection[Capability]) -> None:
        self._command = (sys.executable, "-I", "-S", "-c", _RUN.format(module=module), str(_PACKAGE_FOLDER))
        self._arguments = tuple(arguments)
        self._wanted = wanted
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._given_up: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def given_up(self) -> subprocess.Popen[bytes] | None:
        """The last child that did not answer: while it runs, what it reads still does not answer."""
        return self._given_up[-1] if self._given_up else None

    @property
    def tgid(self) -> int:
        """The child that answered last; 0 without one."""
        return self._child.pid if self._child else 0

    def start(self) -> None:
        """Start the child before its first request, at the start of the exporter. Raises NoAnswer."""
        self._started(FIRST_START_SECONDS)

    def ask(self, request: Any, patience_seconds: float, descriptors: Sequence[int] = ()) -> Answer:
        """descriptors: sent with the request, and still the caller's. Raises NoAnswer."""
        stream = self._started(START_SECONDS)
        until = time.monotonic() + patience_seconds
        held: list[int] = []
        try:
            stream.settimeout(patience_seconds)
            send(stream, request, descriptors)
            (length,) = LENGTH.unpack(received(stream, LENGTH.size, held, until))
            if length > ANSWER_BYTES_MAX:
                raise ValueError(f"an answer of {length} bytes")
            return Answer(json.loads(received(stream, length, held, until)), held)
        except (OSError, EOFError, ValueError, RecursionError) as error:
            _close_all(held)
            self._give_up()
            raise NoAnswer(f"no answer within {patience_seconds:g} s: {error or type(error).__name__}") from error

    def end(self) -> None:
        """End the child; a later request starts another."""
        self._give_up()
        self._reap(EXIT_SECONDS)

    def close(self) -> None:
        """End the child for good, and do not wait long for one that hangs."""
        with self._lock:
            self._is_closed = True
        self.end()

    def _started(self, patience_seconds: float) -> socket.socket:
        if self._socket is not None:
            return self._socket
        self._reap(0.0)
        if len(self._given_up) >= GIVEN_UP_MAX:
            raise NoAnswer(f"{len(self._given_up)} readers hang in files that do not answer")
        stream = self._start()
        if not self._is_ready(stream, patience_seconds):
            self._give_up()
            raise NoAnswer("cannot start a reader: it has ended, or takes too long")
        return stream

    def _start(self) -> socket.socket:
        own, other = socket.socketpair()
        try:
            with other, self._lock, capabilities.passed_on(self._wanted):
                if self._is_closed:
                    raise OSError("the exporter is stopping")
                self._child = subprocess.Popen(
                    (*self._command, str(other.fileno()), *self._arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    env={"LANG": "C.UTF-8"},
                    pass_fds=(other.fileno(),),
                    process_group=0,  # a terminal's Ctrl-C is for the exporter, which ends the child
                )
                self._socket = own
        except OSError as error:
            own.close()
            raise NoAnswer(f"cannot start a reader: {error}") from error
        return own

    @staticmethod
    def _is_ready(stream: socket.socket, patience_seconds: float) -> bool:
        """Waits without the lock: close() ends the wait."""
        try:
            stream.settimeout(patience_seconds)
            return stream.recv(len(READY)) == READY
        except OSError:
            return False

    def _give_up(self) -> None:
        with self._lock:
            child, stream = self._child, self._socket
            self._child = self._socket = None
            if child is not None:
                child.kill()
                self._given_up.append(child)
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)  # ends a wait in another thread
            stream.close()

    def _reap(self, patience_seconds: float) -> None:
        """Forget children that have ended."""
        until = time.monotonic() + patience_seconds
        with self._lock:
            for child in self._given_up:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(max(until - time.monotonic(), 0.0))
            self._given_up = [child for child in self._given_up if child.returncode is None]


def _close_all(descriptors: Collection[int]) -> None:
    for fd in descriptors:
        os.close(fd)
