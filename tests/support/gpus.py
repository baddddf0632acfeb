"""GPUs without a driver: records made by hand, a driver that answers with them, and one that keeps somebody waiting.

`Child` is a process in which the real nvidia-ml-py asks the stand-in's libnvidia-ml.so.1; a file says what that tells.
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

PATIENCE_SECONDS = 30


def facts(gpu: int = 0, uuid: str = "") -> GpuFacts:
    """Of a GPU whose uuid tells its number, unless another one is given."""
    return GpuFacts(str(gpu), uuid or f"GPU-{gpu}")


SILENT = Sample()
"""Of a GPU that tells nothing."""


def record(sample: Sample | None = SILENT, sampled_ns: int = 0, **more: Any) -> GpuRecord:
    """Of GPU 0. more: other fields of GpuRecord."""
    fields: dict[str, Any] = {"facts": facts(), "throttled_ns": {}, "xids": {}, **more}
    return GpuRecord(sample=sample, sampled_ns=sampled_ns, **fields)


def failure(trouble: FailureKind, call: str = "nvmlDeviceGetUUID") -> DriverFailure:
    """What the driver says."""
    return DriverFailure(call, trouble, trouble.value)


class Held:
    """What a call waits for that hangs."""

    def __init__(self) -> None:
        self._let_go = threading.Event()
        self._lock = threading.Lock()
        self.waiting = 0
        """Calls that hang now."""

    def wait(self) -> None:
        """Hang."""
        self._add(1)
        self._let_go.wait(PATIENCE_SECONDS)
        self._add(-1)

    def _add(self, calls: int) -> None:
        with self._lock:
            self.waiting += calls

    def let_go(self) -> None:
        """Whatever hangs returns, and nothing hangs any more."""
        self._let_go.set()


class Clock:
    """CLOCK_MONOTONIC, which goes on when it is told to; and while somebody waits for what hangs, for nothing else takes time."""

    def __init__(self, held: Held | None = None) -> None:
        self._held = held or Held()
        self._given_up = 0  # calls that hang and are not waited for any more
        self.now_ns = 100 * NANOSECONDS

    def __call__(self) -> int:
        """Nanoseconds."""
        return self.now_ns

    def pass_seconds(self, seconds: float) -> None:
        """Time goes by."""
        self.now_ns += int(seconds * NANOSECONDS)

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Until there is news; or the whole time, if a call hangs that was to bring it."""
        while not event.wait(0.001):
            self._given_up = min(self._given_up, self._held.waiting)
            if self._held.waiting > self._given_up:
                self._given_up = self._held.waiting
                self.pass_seconds(seconds)
                return


@dataclass
class FakeGpu:
    """answers: what sample() gives or raises, one after the other; the last one for ever. held: sample() waits for it first."""

    facts: GpuFacts
    answers: list[Sample | Exception] = field(default_factory=lambda: [Sample(reasons=0)])
    failures: list[DriverFailure] = field(default_factory=list)
    xids: list[int] = field(default_factory=list)
    held: Held | None = None
    times_closed: int = 0

    def sample(self, before_call: BeforeCall) -> Sample:
        """The next answer."""
        before_call("nvmlDeviceGetUUID")
        if self.held is not None:
            self.held.wait()
            before_call("nvmlDeviceGetPowerUsage")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def take_failures(self) -> Sequence[DriverFailure]:
        """Those that are there."""
        found, self.failures = self.failures, []
        return found

    def take_xids(self) -> Sequence[int]:
        """Likewise."""
        found, self.xids = self.xids, []
        return found

    def close(self, before_call: BeforeCall) -> None:
        """Counted."""
        before_call("nvmlEventSetFree")
        self.times_closed += 1


@dataclass
class FakeDriver:
    """gpus: those that it counts; one that is an error cannot be opened. refusals: what open() raises, one after the other."""

    gpus: list[FakeGpu | Exception]
    refusals: list[Exception] = field(default_factory=list)
    held: Held | None = None
    calls: Counter[str] = field(default_factory=Counter)

    def open(self, before_call: BeforeCall) -> None:
        """Counted."""
        before_call("nvmlInit")
        self.calls["open"] += 1
        if self.held is not None:
            self.held.wait()
        if self.refusals:
            raise self.refusals.pop(0)

    def close(self, before_call: BeforeCall) -> None:
        """Counted."""
        before_call("nvmlShutdown")
        self.calls["close"] += 1

    def count(self, before_call: BeforeCall) -> int:
        """As many as there are."""
        before_call("nvmlDeviceGetCount")
        return len(self.gpus)

    def gpu(self, index: int, before_call: BeforeCall) -> FakeGpu:
        """Counted."""
        before_call("nvmlDeviceGetHandleByIndex")
        self.calls[f"gpu {index}"] += 1
        one = self.gpus[index]
        if isinstance(one, Exception):
            raise one
        return one


def tell(state: Path, *lines: str) -> None:
    """Write the stand-in's state file anew, so that nobody reads half of it."""
    fresh = state.with_suffix(".new")
    fresh.write_text("".join(f"{line}\n" for line in lines))
    fresh.replace(state)


class Child:
    """A process that asks the stand-in. variables: of its environment; see with_driver(), without which there is none."""

    def __init__(self, state: Path, **variables: str) -> None:
        self._state = state
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "STANDIN_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.gpus"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**kept, "STANDIN_NVML_STATE": str(state), **variables},
        )

    def tell(self, *lines: str) -> None:
        """What the driver tells from now on; nothing is left of what it told before."""
        tell(self._state, *lines)

    def do(self, what: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of a module, called there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((what, arguments), self._process.stdin)
        self._process.stdin.flush()
        result, error = pickle.load(self._process.stdout)  # noqa: S301 - from our own process
        assert error is None, error
        return result

    def close(self) -> None:
        """The process ends, hanging calls or not."""
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
