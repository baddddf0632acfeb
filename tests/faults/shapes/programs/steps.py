"""The step log of a program, its end at SIGTERM, and its place among ranks.

STEP_LOG: a file to which each step adds a line {"rank", "step", "tgid", "start_ns", "end_ns"}, CLOCK_MONOTONIC.
"""

import ctypes
import json
import mmap
import os
import signal
import statistics
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_RECENT_STEPS = 31
_USUAL_BYTES = 8


def die_with_parent() -> None:
    """The kernel kills this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_at_sigterm() -> None:
    """Exit code 0 at once, even while all threads are inside C: call from the main thread.

    Python runs handlers in the main thread between two instructions, which may be long after the signal; the wake-up pipe is
    written at once.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def wait() -> None:
        while signal.SIGTERM not in os.read(reading, 64):
            pass
        os._exit(0)

    threading.Thread(target=wait, name="end", daemon=True).start()


def end_as_usual() -> None:
    """In a process forked from one that has called end_at_sigterm()."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent()


class Usual:
    """The usual length of a step, for processes that the job starts and does not fork. file: Steps.usual_file of the job."""

    def __init__(self, file: str) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.seed = int(os.environ.get("SEED", "1"))
        with open(file, "rb") as opened:  # noqa: PTH123 - mapped
            self._usual = mmap.mmap(opened.fileno(), _USUAL_BYTES, prot=mmap.PROT_READ)

    @property
    def usual_seconds(self) -> float:
        """As that of Steps."""
        return float(struct.unpack("d", self._usual[:])[0])


class Steps:
    """Iterate over it: each pass is a step, which is logged when the next one begins. Threads may share it through add().

    has_fault: whether a fault is on, so that the step is not usual; set by inside.Inside.
    """

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.seed = int(os.environ.get("SEED", "1"))
        self.folder = Path(os.environ["STEP_LOG"]).parent
        self.has_fault = False
        self.number = 0
        self._log = os.open(os.environ["STEP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._recent: deque[int] = deque(maxlen=_RECENT_STEPS)
        memory = os.memfd_create("usual")
        os.truncate(memory, _USUAL_BYTES)
        self._usual = mmap.mmap(memory, _USUAL_BYTES)  # shared with processes forked from this one
        self.usual_file = f"/proc/{os.getpid()}/fd/{memory}"
        self._lock = threading.Lock()
        self._start_ns = 0
        if "LAUNCHER" in os.environ:
            die_with_parent()
            if os.getppid() != int(os.environ["LAUNCHER"]):
                os._exit(0)
        end_at_sigterm()

    def __iter__(self) -> Iterator[int]:
        while True:
            self.begin_again()
            yield self.number
            self.end()

    def begin_again(self) -> None:
        """What was done since the last step is not part of this one."""
        self._start_ns = time.monotonic_ns()

    def end(self) -> None:
        """What is done until the next step is not part of this one, which may have ended already."""
        if self._start_ns:
            self.add(self._start_ns)
        self._start_ns = 0

    def add(self, start_ns: int) -> None:
        """Log a step that ends now."""
        end_ns = time.monotonic_ns()
        with self._lock:
            line = {"rank": self.rank, "step": self.number, "tgid": os.getpid(), "start_ns": start_ns, "end_ns": end_ns}
            self.number += 1
            os.write(self._log, json.dumps(line).encode() + b"\n")
            if not self.has_fault:
                self._recent.append(end_ns - start_ns)
                self._usual[:] = struct.pack("d", statistics.median(self._recent) / 1e9)

    @property
    def usual_seconds(self) -> float:
        """The median of the last steps without a fault; 0 before the first one."""
        return float(struct.unpack("d", self._usual[:])[0])
