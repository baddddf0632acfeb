"""A small process that starts another one for each call: of bounded time and memory, and ended with it.

In: a request of bytes. Out: a descriptor to read the answer from, in frames, until its end. The process is forked before this one
has threads or an event loop, and has one thread itself, so that it can be copied at any moment.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.context import ForkProcess
from typing import Final, Self

from exporter.investigate.child import data_bytes, lower_limit

REQUEST_BYTES_MAX: Final = 128 << 10
HEADER_BYTES: Final = 4
"""Before each frame: its length. A frame without content is the last."""
MEMORY_BYTES: Final = 256 << 20
"""That a call may take beyond what the process has."""
CALL_SECONDS: Final = 20.0
_STACK_BYTES: Final = 256 << 10
"""For each thread of a call. It counts as memory: 512 threads, which ask nodes, take half of it and not 4 GiB."""

_FORK: Final = multiprocessing.get_context("fork")

Work = Callable[[bytes], Iterable[bytes]]


class Dispatcher:
    """The process, until close()."""

    def __init__(self, connection: socket.socket, process: ForkProcess) -> None:
        self._connection = connection
        self._process = process

    @classmethod
    def started(cls, work: Work, seconds: float) -> Self:
        """work: frames of the answer to a request; it runs in the process of the call. seconds: for one call."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = _FORK.Process(target=_dispatch, args=(ours, theirs, work, seconds))
        process.start()
        theirs.close()
        return cls(ours, process)

    def submit(self, request: bytes) -> int:
        """A descriptor to read from. The call ends when the caller closes it. Raises OSError."""
        receiving, sending = os.pipe()
        try:
            socket.send_fds(self._connection, [request], [sending])
        except OSError:
            os.close(receiving)
            raise
        finally:
            os.close(sending)
        return receiving

    def close(self) -> None:
        self._connection.close()
        self._process.join()


def _dispatch(other_end: socket.socket, connection: socket.socket, work: Work, seconds: float) -> None:
    other_end.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; this process ends with the connection
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES_MAX, 1)
        if not request:
            return
        (descriptor,) = descriptors
        _FORK.Process(target=_answer, args=(request, descriptor, work, seconds)).start()  # also reaps earlier ones
        os.close(descriptor)


def _answer(request: bytes, descriptor: int, work: Work, seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _restrict(seconds)
    # SIGPIPE stays ignored: a node that closes its connection must not end the call.
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as answer:  # the reader has closed the descriptor
        for frame in work(request):
            answer.write(len(frame).to_bytes(HEADER_BYTES, "big") + frame)
            answer.flush()
        answer.write(bytes(HEADER_BYTES))


def _restrict(seconds: float) -> None:
    threading.stack_size(_STACK_BYTES)
    lower_limit(resource.RLIMIT_DATA, data_bytes() + MEMORY_BYTES)
    lower_limit(resource.RLIMIT_CPU, math.ceil(seconds) + 1)
    lower_limit(resource.RLIMIT_CORE, 0)
