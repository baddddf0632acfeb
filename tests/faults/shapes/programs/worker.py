"""Faults of a loader's workers, which are processes or threads: each batch takes longer until the workers are too slow."""

import mmap
import os
import random
import time
from pathlib import Path

import busy
from inside import WORKERS, read_fault
from steps import Steps, Usual

_FILE_BYTES = 32 << 20
_READ_BYTES = 256 << 10


class Disturbance:
    """A worker's faults. workers: how many make batches at the same time; 0: each batch is waited for from its request on."""

    def __init__(self, steps: Steps | Usual, workers: int = 0) -> None:
        self._steps = steps
        self._workers = workers
        self._random = random.Random(steps.seed)
        self._file: int | None = None

    def disturb(self, started_at: float = 0.0) -> None:
        """Call when a batch is ready. started_at: time.monotonic() when it was begun; only used with workers."""
        fault = read_fault(os.environ.get("FAULT_FILE", ""), self._steps.rank)
        if fault is None or fault["kind"] not in WORKERS:
            return
        usual, share = self._steps.usual_seconds, fault["share"]
        until = started_at + self._workers * usual * (1 + share) if self._workers else time.monotonic() + share * usual
        seconds = max(until - time.monotonic(), 0)
        if fault["kind"] == "worker-sleeps":
            time.sleep(seconds)
        elif fault["kind"] == "worker-computes":
            busy.compute(seconds)
        elif fault["kind"] == "worker-reads-disk":
            self._read(until)
        else:
            self._fault_pages(until)

    def _read(self, until: float) -> None:
        """Pieces of a file that the page cache does not hold."""
        file = self._opened()
        while time.monotonic() < until:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.pread(file, _READ_BYTES, self._random.randrange(_FILE_BYTES // _READ_BYTES) * _READ_BYTES)

    def _fault_pages(self, until: float) -> None:
        """Pages of a mapped file, each of which comes from the disk."""
        file = self._opened()
        with mmap.mmap(file, _FILE_BYTES, prot=mmap.PROT_READ) as pages:
            pages.madvise(mmap.MADV_RANDOM)
            while time.monotonic() < until:
                pages.madvise(mmap.MADV_DONTNEED)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                for _ in range(16):
                    pages[self._random.randrange(_FILE_BYTES)]

    def _opened(self) -> int:
        if self._file is None:
            path = Path(os.environ["STEP_LOG"]).with_name(f"data-{os.getpid()}-{id(self)}")
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            path.unlink()
            piece = os.urandom(1 << 20)
            for at in range(0, _FILE_BYTES, len(piece)):
                os.pwrite(self._file, piece, at)
            os.fsync(self._file)  # only clean pages can be dropped
        return self._file
