"""Functions that a tests.support.gpus.Child runs: they call the driver and return what can be pickled."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from exporter.errors import NotPossibleHere
from exporter.gpu.driver_calls import DriverFailure
from exporter.gpu.model import FailureKind, GpuFacts, GpuReading, GpuState, Sample
from exporter.gpu.nvml import Nvml, NvmlGpu
from exporter.gpu.sampled_gpu import SamplerTiming
from exporter.gpu.sampler import GpuSampler

Failed = tuple[str, FailureKind]
"""The call, and what went wrong."""

_nvml = Nvml()
_gpus: dict[int, NvmlGpu] = {}
_called: list[str] = []
_samplers: list[GpuSampler] = []


def opened() -> str | Failed:
    """The driver's version, or why there is none."""
    try:
        _nvml.open(_called.append)
    except NotPossibleHere as error:
        return f"absent: {error}"
    except DriverFailure as error:
        return error.call, error.kind
    return _nvml.version


def count() -> int:
    return _nvml.count(_called.append)


def gpu(index: int = 0) -> GpuFacts | Failed:
    """Opens it."""

    def ask() -> GpuFacts:
        _gpus[index] = _nvml.gpu(index, _called.append)
        return _gpus[index].facts

    return _tried(ask)


def sample(index: int = 0) -> Sample | Failed:
    """A sample of an open GPU."""
    return _tried(lambda: _gpus[index].sample(_called.append))


def failures(index: int = 0) -> list[Failed]:
    """Failures of single calls since the last time."""
    return [(one.call, one.kind) for one in _gpus[index].take_failures()]


def xids(index: int = 0) -> list[int]:
    """Since the last time."""
    return _gpus[index].take_xids()


def calls() -> list[str]:
    """Names of the functions called since the last time."""
    found = list(_called)
    _called.clear()
    return found


def imported(name: str) -> bool:
    """Whether a module is imported."""
    return name in sys.modules


def sampler(pace: SamplerTiming) -> None:
    """Create a sampler."""
    _samplers.append(GpuSampler(Nvml(), pace))


def rounds(times: int = 1) -> GpuReading:
    """Run some rounds of the last sampler."""
    for _ in range(times):
        _samplers[-1].round()
    return _samplers[-1].reading()


def states() -> Sequence[GpuState]:
    """As of the last round."""
    return _samplers[-1].states()


def seconds_to_stop() -> float:
    """Stop the last sampler, whatever it is doing."""
    began_at = time.monotonic()
    _samplers[-1].stop()
    return time.monotonic() - began_at


def start() -> None:
    """Start the last sampler."""
    _samplers[-1].start()


def wait_for(gpu: str, trouble: FailureKind, patience_seconds: float) -> bool:
    """Whether this failure is counted in time."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        if _samplers[-1].reading().failures.get((gpu, trouble)):
            return True
        time.sleep(0.01)
    return False


def _tried(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except DriverFailure as error:
        return error.call, error.kind
