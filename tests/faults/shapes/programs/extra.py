"""What each step does besides its work, from outside chosen: STEP_EXTRA. Call Extra.do() at the start of each step.

read:PATH a piece of a file that the page cache does not keep; fetch:HOST:PORT a batch over TCP; resolve:HOST:PORT the same, where
the host is looked up each time; log: some lines on standard output; touch: fresh memory.
"""

import mmap
import os
import random
import socket
import stat
import sys

READ_BYTES = 128 << 10
FETCH_BYTES = 64 << 10
TOUCHED_BYTES = 16 << 20
_PAGES = bytes(TOUCHED_BYTES)
LOG_LINES = [f"step metrics {number} " + "0.123456 " * 20 for number in range(10)]


class Extra:
    """What STEP_EXTRA names; nothing when it is not set."""

    def __init__(self, seed: int) -> None:
        kind, _, self._argument = os.environ.get("STEP_EXTRA", "").partition(":")
        self._random = random.Random(seed)
        self._file: int | None = None
        self._connection: socket.socket | None = None
        self.do = {"": lambda: None, "read": self._read, "fetch": self._fetch, "resolve": self._resolve}.get(kind) or {
            "log": self._log,
            "touch": self._touch,
        }[kind]

    def _read(self) -> None:
        if self._file is None:
            is_disk = stat.S_ISBLK(os.stat(self._argument).st_mode)  # noqa: PTH116 - once
            self._file = os.open(self._argument, os.O_RDONLY | (os.O_DIRECT if is_disk else 0))
            self._batch = mmap.mmap(-1, READ_BYTES)  # aligned to pages
            self._pieces = os.lseek(self._file, 0, os.SEEK_END) // READ_BYTES
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_RANDOM)
        at = self._random.randrange(self._pieces) * READ_BYTES
        os.preadv(self._file, [self._batch], at)
        os.posix_fadvise(self._file, at, READ_BYTES, os.POSIX_FADV_DONTNEED)

    def _fetch(self) -> None:
        if self._connection is None:
            host, _, port = self._argument.partition(":")
            self._connection = socket.create_connection((host, int(port)))
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.sendall(FETCH_BYTES.to_bytes(8, "little"))
        left = FETCH_BYTES
        while left:
            left -= len(self._connection.recv(left))

    def _resolve(self) -> None:
        host, _, port = self._argument.partition(":")
        socket.getaddrinfo(host, int(port), socket.AF_INET, socket.SOCK_STREAM)
        if self._connection is None:
            self._connection = socket.create_connection((host, int(port)))
        self._fetch()

    def _log(self) -> None:
        print(*LOG_LINES, sep="\n", file=sys.stdout, flush=True)

    def _touch(self) -> None:
        with mmap.mmap(-1, TOUCHED_BYTES) as fresh:
            fresh.write(_PAGES)
