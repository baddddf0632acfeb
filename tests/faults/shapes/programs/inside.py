"""Faults from inside: what FAULT_FILE names is brought about in each step while the file is there.

All ranks have a decoy. A program calls look() when a step begins and host() where its GPU is idle; one with ranks calls
before_collective(); workers of a loader call worker.disturb().
"""

import os
import time
from collections.abc import Callable
from typing import Any

import busy
import fault_file
import waiting
from extra import Extra
from gpu import Gpu
from steps import Steps

EVALUATION_SECONDS = 8.0
DRIFT_PER_SECOND = 0.05 / 60
OF_CLIENTS = ("fewer-requests", "more-requests")  # see clients.py
DECOYS = ("batch-size", "longer-sequences", "evaluation", "more-logging", *OF_CLIENTS)
WORKERS = ("worker-sleeps", "worker-computes", "worker-reads-disk", "worker-faults-pages")
HANG_POLL_SECONDS = 0.02

ON_HOST: dict[str, Callable[["Inside"], Any]] = {
    "gil": lambda _: busy.InterpreterLock(),
    "lock-holder-sleeps": lambda _: waiting.HeldLock(time.sleep),
    "lock-holder-computes": lambda _: waiting.HeldLock(busy.compute_without_interpreter),
    "file-lock": lambda inside: waiting.FileLock(inside.steps.folder),
    "gc": lambda _: busy.Collections(),
    "sleep": lambda _: waiting.Sleep(),
    "python": lambda _: busy.Computation(),
    "subprocess": lambda _: waiting.Command(),
    "checkpoint": lambda inside: waiting.Checkpoint(inside.steps.folder),
    "epoll": lambda _: waiting.LateEvent(),
    "recompilation": lambda inside: busy.Recompilation(inside.gpu),
    "churn": lambda inside: busy.Churn(inside.gpu),
    "pageable-copy": lambda inside: busy.PageableCopy(inside.gpu),
    "log-pipe": lambda inside: waiting.LogPipe(inside.steps.usual_seconds * (1 + inside.share)),
    "pause": lambda _: waiting.Pause(),
    "more-logging": lambda inside: waiting.Logging(inside.steps.folder),
}
"""What makes the step thread late: an object with step(seconds) and close()."""

KINDS = {*ON_HOST, *DECOYS, *WORKERS, "slow-gpu", "straggler", "hang"}


def read_fault(path: str, rank: int) -> dict[str, Any] | None:
    """The fault that is on and concerns this rank."""
    fault = fault_file.read(path)
    if fault is None:
        return None
    is_ours = fault["kind"] in DECOYS or fault.get("rank", rank) == rank
    return fault if is_ours else None


class Inside:
    """What is on in this step."""

    def __init__(self, steps: Steps, gpu: Gpu) -> None:
        self.steps = steps
        self.gpu = gpu
        self.kind = ""
        self.share = 0.0
        self._extra = Extra(steps.seed)
        self._path = os.environ.get("FAULT_FILE", "")
        self._version: tuple[int, int] | None = None
        self._since = 0.0
        self._bringing: Any = None
        self._seen = (0, 0)  # steps, and time of the GPU, up to the last look
        self._usual = (0, 0)  # the same, of the time without a fault

    def look(self) -> None:
        """At the start of each step."""
        self._extra.do()
        self._see()

    def _see(self) -> None:
        """Whether the fault is still the same."""
        seen = (self.steps.number, self.gpu.busy_ns)
        if not self.kind:
            self._usual = (self._usual[0] + seen[0] - self._seen[0], self._usual[1] + seen[1] - self._seen[1])
        self._seen = seen
        try:
            status = os.stat(self._path)  # noqa: PTH116 - in each step
            version = (status.st_ino, status.st_mtime_ns)
        except FileNotFoundError:
            version = None
        if version != self._version:
            self._version = version
            self._change(read_fault(self._path, self.steps.rank) if version else None)
        if self.kind == "longer-sequences":
            self.gpu.scale = 1 + DRIFT_PER_SECOND * (time.monotonic() - self._since)

    def _change(self, fault: dict[str, Any] | None) -> None:
        if self._bringing:
            self._bringing.close()
            self._bringing = None
        self.gpu.scale = self.gpu.batch = 1.0
        self.gpu.slow_down(1.0)
        self.kind, self.share = (fault["kind"], fault["share"]) if fault else ("", 0.0)
        self.steps.has_fault = self._version is not None
        self._since = time.monotonic()
        if self.kind in ON_HOST:
            self._bringing = ON_HOST[self.kind](self)
        elif self.kind == "batch-size":
            self.gpu.scale = self.gpu.batch = self._longer_kernels()
        elif self.kind == "slow-gpu":
            self.gpu.slow_down(self._longer_kernels())

    def _longer_kernels(self) -> float:
        """The factor on all kernels that makes a step longer by the share."""
        steps, busy_ns = self._usual
        return 1 + self.share * self.steps.usual_seconds * steps * 1e9 / max(busy_ns, 1)

    def host(self, hidden_seconds: float = 0.0) -> None:
        """Where the GPU has nothing to do. hidden_seconds: by how much the host is ahead of the GPU instead."""
        if self._bringing:
            self._bringing.step(self.share * self.steps.usual_seconds + hidden_seconds)

    def before_collective(self) -> None:
        """Where the GPU has nothing to do: a straggler is late here, and a rank that hangs does not go on."""
        if self.kind == "straggler":
            busy.compute(self.share * self.steps.usual_seconds)
        while self.kind == "hang":
            time.sleep(HANG_POLL_SECONDS)
            self._see()

    def evaluate(self, run: Callable[[], None]) -> None:
        """After look(): an evaluation, which is no part of a step. run: evaluates a batch."""
        while self.kind == "evaluation" and time.monotonic() - self._since < EVALUATION_SECONDS:
            run()
            self._see()
            self.steps.begin_again()
