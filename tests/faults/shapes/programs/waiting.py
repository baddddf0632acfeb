"""Faults in which the step thread sleeps: classes with step(seconds) and close()."""

import fcntl
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from second_thread import SecondThread

PAUSE_SECONDS, PAUSE_EVERY = 0.7, 40
_PEER = Path(__file__).with_name("peer.py")
_PAGE_BYTES = 4096


class Sleep:
    """time.sleep() in each step."""

    def step(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        """Nothing is left."""


class Pause:
    """A long sleep once in a while."""

    def __init__(self) -> None:
        self._steps = 0

    def step(self, _seconds: float) -> None:
        if self._steps % PAUSE_EVERY == 0:
            time.sleep(PAUSE_SECONDS)
        self._steps += 1

    def close(self) -> None:
        """Nothing is left."""


class HeldLock(SecondThread):
    """Another thread holds a lock that the step needs. busy: what it does with it."""

    def __init__(self, busy: Callable[[float], None]) -> None:
        self._busy = busy
        self._lock = threading.Lock()
        super().__init__("holder")

    def act(self, seconds: float) -> None:
        with self._lock:
            self.begun.set()
            self._busy(seconds)

    def step(self, seconds: float) -> None:
        super().step(seconds)
        with self._lock:
            pass


class Peer:
    """Another process, which does something for so many seconds at each line."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_PEER), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdout is not None
        self.answers = self._process.stdout.fileno()
        self.answer()

    def ask(self, seconds: float) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n".encode())

    def answer(self) -> None:
        os.read(self.answers, 1)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class FileLock:
    """Another process holds a lock on a file, as that of a compiler's cache."""

    def __init__(self, folder: Path) -> None:
        self._file, path = tempfile.mkstemp(".lock", dir=folder)
        self._peer = Peer("hold", path)

    def step(self, seconds: float) -> None:
        self._peer.ask(seconds)
        self._peer.answer()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        self._peer.close()
        os.close(self._file)


class LateEvent:
    """An event loop waits for an answer that comes late."""

    def __init__(self) -> None:
        self._peer = Peer("answer")
        self._epoll = select.epoll()
        self._epoll.register(self._peer.answers, select.EPOLLIN)

    def step(self, seconds: float) -> None:
        self._peer.ask(seconds)
        self._epoll.poll()
        self._peer.answer()

    def close(self) -> None:
        self._epoll.close()
        self._peer.close()


class Command:
    """A command is run in each step, as for the commit's hash or the GPU's temperature."""

    def __init__(self) -> None:
        starts = []
        for _ in range(5):
            start = time.monotonic()
            subprocess.run(["sleep", "0"], check=True)
            starts.append(time.monotonic() - start)
        self._start_seconds = statistics.median(starts)

    def step(self, seconds: float) -> None:
        subprocess.run(["sleep", f"{max(seconds - self._start_seconds, 0):.6f}"], check=True)

    def close(self) -> None:
        """Nothing is left."""


class Checkpoint:
    """A file is written and synced, piece by piece, until the time is over."""

    _PIECE_BYTES = 256 << 10
    _LARGEST_BYTES = 64 << 20

    def __init__(self, folder: Path) -> None:
        self._file, self._path = tempfile.mkstemp(".ckpt", dir=folder)
        self._piece = os.urandom(self._PIECE_BYTES)
        self._at = 0

    def step(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self._at += os.pwrite(self._file, self._piece, self._at % self._LARGEST_BYTES)
            os.fsync(self._file)
            if time.monotonic() >= end:
                return

    def close(self) -> None:
        os.close(self._file)
        os.unlink(self._path)  # noqa: PTH108 - as mkstemp() names it


class LogPipe:
    """Standard output is a pipe that is read slowly: each step writes a page, and a page is read in each period."""

    def __init__(self, period_seconds: float) -> None:
        reading, self._pipe = os.pipe2(os.O_CLOEXEC)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PAGE_BYTES)
        self._reader = subprocess.Popen([sys.executable, str(_PEER), "read", str(period_seconds)], stdin=reading)
        os.close(reading)

    def step(self, _seconds: float) -> None:
        os.write(self._pipe, b"." * _PAGE_BYTES)

    def close(self) -> None:
        self._reader.kill()
        self._reader.wait()
        os.close(self._pipe)


class Logging:
    """Many lines into a file, which costs hardly anything."""

    _LARGEST_BYTES = 1 << 20

    def __init__(self, folder: Path) -> None:
        self._file, self._path = tempfile.mkstemp(".log", dir=folder)
        self._written = 0

    def step(self, _seconds: float) -> None:
        for _ in range(5):
            self._written += os.pwrite(self._file, b"a line of the log\n" * 4, self._written % self._LARGEST_BYTES)

    def close(self) -> None:
        os.close(self._file)
        os.unlink(self._path)  # noqa: PTH108 - as mkstemp() names it
