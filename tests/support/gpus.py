"""GPUs without a driver: records, a fake driver that returns them, and a clock.

A Child is a process in which the real nvidia-ml-py uses the stand-in's libnvidia-ml.so.1, driven by a state file.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gpustall_standin as standin
from exporter.gpu.call_timeout import BeforeCall
from exporter.gpu.driver_calls import DriverFailure
from exporter.gpu.model import FailureKind, GpuFacts, GpuRecord, Sample
from exporter.units import NANOSECONDS
from tests.support.patience import PATIENCE_SECONDS


def facts(gpu: int = 0, uuid: str = "") -> GpuFacts:
    """Facts of a GPU whose uuid has its number, unless one is given."""
    return GpuFacts(str(gpu), uuid or f"GPU-{gpu}")


SILENT = Sample()
"""A sample without values."""


def record(sample: Sample | None = SILENT, sampled_ns: int = 0, **more: Any) -> GpuRecord:
    """A record of GPU 0. more: other fields of GpuRecord."""
    fields: dict[str, Any] = {"facts": facts(), "throttled_ns": {}, "xids": {}, **more}
    return GpuRecord(sample=sample, sampled_ns=sampled_ns, **fields)


def failure(trouble: FailureKind, call: str = "nvmlDeviceGetUUID") -> DriverFailure:
    """A failed driver call."""
    return DriverFailure(call, trouble, trouble.value)


class Held:
    """An event that hanging calls wait for."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._lock = threading.Lock()
        self.waiting = 0
        """Calls that hang now."""

    def wait(self) -> None:
        self._add(1)
        self._released.wait(PATIENCE_SECONDS)
        self._add(-1)

    def _add(self, calls: int) -> None:
        with self._lock:
            self.waiting += calls

    def release(self) -> None:
        """Make all hanging calls return; none hangs any more."""
        self._released.set()


class Clock:
    """CLOCK_MONOTONIC. It advances when the test advances it, and while a caller waits for a hanging call."""

    def __init__(self, held: Held | None = None) -> None:
        self._held = held or Held()
        self._given_up = 0  # hanging calls that were abandoned
        self.now_ns = 100 * NANOSECONDS

    def __call__(self) -> int:
        return self.now_ns

    def pass_seconds(self, seconds: float) -> None:
        self.now_ns += int(seconds * NANOSECONDS)

    def wait(self, event: threading.Event, seconds: float) -> None:
        while not event.wait(0.001):
            self._given_up = min(self._given_up, self._held.waiting)
            if self._held.waiting > self._given_up:
                self._given_up = self._held.waiting
                self.pass_seconds(seconds)
                return


@dataclass
class FakeGpu:
    """answers: what sample() returns or raises, in order; the last one for ever. held: sample() waits for it first."""

    facts: GpuFacts
    answers: list[Sample | Exception] = field(default_factory=lambda: [Sample(reasons=0)])
    failures: list[DriverFailure] = field(default_factory=list)
    xids: list[int] = field(default_factory=list)
    held: Held | None = None
    times_closed: int = 0

    def sample(self, before_call: BeforeCall) -> Sample:
        before_call("nvmlDeviceGetUUID")
        if self.held is not None:
            self.held.wait()
            before_call("nvmlDeviceGetPowerUsage")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def take_failures(self) -> Sequence[DriverFailure]:
        found, self.failures = self.failures, []
        return found

    def take_xids(self) -> Sequence[int]:
        found, self.xids = self.xids, []
        return found

    def close(self, before_call: BeforeCall) -> None:
        before_call("nvmlEventSetFree")
        self.times_closed += 1


@dataclass
class FakeDriver:
    """gpus: those that it lists; one that is an error cannot be opened. refusals: what open() raises, in order."""

    gpus: list[FakeGpu | Exception]
    refusals: list[Exception] = field(default_factory=list)
    held: Held | None = None
    calls: Counter[str] = field(default_factory=Counter)

    def open(self, before_call: BeforeCall) -> None:
        before_call("nvmlInit")
        self.calls["open"] += 1
        if self.held is not None:
            self.held.wait()
        if self.refusals:
            raise self.refusals.pop(0)

    def close(self, before_call: BeforeCall) -> None:
        before_call("nvmlShutdown")
        self.calls["close"] += 1

    def count(self, before_call: BeforeCall) -> int:
        before_call("nvmlDeviceGetCount")
        return len(self.gpus)

    def gpu(self, index: int, before_call: BeforeCall) -> FakeGpu:
        before_call("nvmlDeviceGetHandleByIndex")
        self.calls[f"gpu {index}"] += 1
        one = self.gpus[index]
        if isinstance(one, Exception):
            raise one
        return one


def write_state(state: Path, *lines: str) -> None:
    """Replace the stand-in's state file at once, so that no half of it is read."""
    fresh = state.with_suffix(".new")
    fresh.write_text("".join(f"{line}\n" for line in lines))
    fresh.replace(state)


class Child:
    """A process that uses the stand-in. variables: of its environment; without with_driver() it has no driver."""

    def __init__(self, state: Path, **variables: str) -> None:
        self._state = state
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "STANDIN_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.gpus"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept, "STANDIN_NVML_STATE": str(state), **variables},
        )

    def write_state(self, *lines: str) -> None:
        """Replace the stand-in's state file at once, so that no half of it is read."""
        write_state(self._state, *lines)

    def call(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of a module, called in the child."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((what, arguments), self._process.stdin)
        self._process.stdin.flush()
        result, error = pickle.load(self._process.stdout)  # noqa: S301 - from our own process
        assert error is None, error
        return result

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        self._process.stdout.close()


def with_driver(library: str = "libnvidia-ml.so.1") -> dict[str, str]:
    """The environment of a Child that finds this library of the stand-in."""
    folder = standin.build_dir()
    return {"LD_LIBRARY_PATH": str(folder)} if library.endswith(".1") else {"LD_PRELOAD": str(folder / library)}


def _serve() -> None:
    while True:
        try:
            what, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the test
        except EOFError:
            return
        try:
            answer = what(*arguments), None
        except Exception as error:
            answer = None, repr(error)
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
