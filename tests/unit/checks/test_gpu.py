"""checks.gpu: the NVIDIA driver, and what NVML reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import config
from exporter.checks import gpu
from exporter.checks.check import Check, CheckState
from exporter.errors import NotPossibleHere
from exporter.gpu.model import FailureKind, GpuFacts
from exporter.gpu.sampled_gpu import SamplerTiming
from exporter.gpu.sampler import GpuSampler
from tests.support.gpus import Clock, FakeDriver, FakeGpu, Held, failure

H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def held() -> Iterator[Held]:
    """Blocks a call until the test ends."""
    call = Held()
    yield call
    call.release()


def nvml(driver: FakeDriver, clock: Clock | None = None, **flags: str) -> Check:
    clock = clock or Clock()
    return gpu.nvml(config.load(flags, {}), GpuSampler(driver, SamplerTiming(), clock, clock.wait))


def h100(index: int, held: Held | None = None) -> FakeGpu:
    return FakeGpu(GpuFacts(str(index), f"GPU-{index}", H100, driver_version="570.86.15"), held=held)


class TestDriver:
    def test_first_line_of_its_version_is_shown(self, tmp_path: Path) -> None:
        version = tmp_path / "version"
        version.write_text("NVRM version: 570.86.15\nGCC version: 13\n")

        assert gpu.driver(version) == Check("NVIDIA driver", CheckState.OK, "NVRM version: 570.86.15")

    def test_missing_driver_is_a_warning(self, tmp_path: Path) -> None:
        """`run` can start without a driver."""
        check = gpu.driver(tmp_path / "version")

        assert (check.state, check.found) == (CheckState.WARNING, "not loaded")


class TestNvml:
    def test_driver_version_and_models_are_shown(self) -> None:
        """Each model once."""
        assert nvml(FakeDriver([h100(0), h100(1)])) == Check("NVML", CheckState.OK, f"driver 570.86.15, 2 GPUs: {H100}")

    def test_missing_driver_is_a_warning(self) -> None:
        check = nvml(FakeDriver([], [NotPossibleHere("there is no libnvidia-ml.so.1")]))

        assert (check.state, check.found) == (
            CheckState.WARNING,
            "there is no libnvidia-ml.so.1; no GPU metrics, all others are complete",
        )
        assert check.remedy

    def test_gpu_that_does_not_answer_is_named(self) -> None:
        """With the call and its error."""
        check = nvml(FakeDriver([h100(0), failure(FailureKind.LOST, "nvmlDeviceGetHandleByIndex")]))

        assert check.state is CheckState.WARNING
        assert check.found.startswith("1 of 2 GPUs answer: GPU 1")
        assert "nvmlDeviceGetHandleByIndex" in check.found

    def test_call_that_hangs_is_abandoned_and_named(self, held: Held) -> None:
        check = nvml(FakeDriver([h100(0, held)]), Clock(held))

        assert check.found.startswith("0 of 1 GPUs answer: GPU 0")
        assert "nvmlDeviceGetUUID" in check.found

    def test_driver_without_gpus_is_a_warning(self) -> None:
        """As in a virtual machine without one."""
        assert nvml(FakeDriver([])).found == "0 of 0 GPUs answer: the driver reports no GPU"

    def test_disabled_collector_calls_nothing(self) -> None:
        driver = FakeDriver([h100(0)])

        assert nvml(driver, **{"collector.device": "false"}).state is CheckState.WARNING
        assert driver.calls == {}
