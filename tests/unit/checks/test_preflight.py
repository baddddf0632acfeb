"""preflight: what `check` says of the driver's NVML. All else is a machine's: tests/end_to_end/test_check.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter import config
from exporter.checks import preflight
from exporter.checks.preflight import CheckState, Finding
from exporter.errors import NotPossibleHere
from exporter.gpu.model import FailureKind, GpuFacts
from exporter.gpu.sampler import GpuSampler, SamplerTiming
from tests.support.gpus import Clock, FakeDriver, FakeGpu, Held, failure

H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def held() -> Iterator[Held]:
    """What a call waits for that hangs; it is let go in the end."""
    what = Held()
    yield what
    what.let_go()


def said(driver: FakeDriver, clock: Clock | None = None, **flags: str) -> Finding:
    """Of this driver."""
    clock = clock or Clock()
    return preflight._nvml(config.load(flags, {}), GpuSampler(driver, SamplerTiming(), clock, clock.wait))


def gpu(index: int, held: Held | None = None) -> FakeGpu:
    """Of a model that has a name."""
    return FakeGpu(GpuFacts(str(index), f"GPU-{index}", H100, driver_version="570.86.15"), held=held)


class TestNvml:
    """Whether GPUs are told of."""

    def test_driver_and_gpus_are_named(self) -> None:
        """Each model once."""
        assert said(FakeDriver([gpu(0), gpu(1)])) == Finding("NVML", CheckState.OK, f"driver 570.86.15, 2 GPUs: {H100}")

    def test_machine_without_a_driver_lacks_it(self) -> None:
        """`run` works there."""
        finding = said(FakeDriver([], [NotPossibleHere("there is no libnvidia-ml.so.1")]))

        assert (finding.state, finding.detail) == (
            CheckState.ABSENT,
            "there is no libnvidia-ml.so.1; GPUs are not told of, jobs are",
        )
        assert finding.remedy

    def test_gpu_that_does_not_answer_is_named(self) -> None:
        """With the call and its error."""
        finding = said(FakeDriver([gpu(0), failure(FailureKind.LOST, "nvmlDeviceGetHandleByIndex")]))

        assert finding.state is CheckState.ABSENT
        assert finding.detail == ("1 of 2 GPUs answer: GPU 1 is not told of: nvmlDeviceGetHandleByIndex: lost")

    def test_call_that_hangs_is_not_waited_for(self, held: Held) -> None:
        """It is named."""
        finding = said(FakeDriver([gpu(0, held)]), Clock(held))

        assert finding.detail.startswith(
            "0 of 1 GPUs answer: GPU 0 is not told of: nvmlDeviceGetUUID has not returned for 1 s"
        )

    def test_driver_without_gpus_says_so(self) -> None:
        """As in a virtual machine that was given none."""
        assert said(FakeDriver([])).detail == "0 of 0 GPUs answer: the driver counts no GPU"

    def test_collector_that_is_off_asks_nobody(self) -> None:
        """As its flag says."""
        driver = FakeDriver([gpu(0)])

        assert said(driver, **{"collector.device": "false"}).state is CheckState.ABSENT
        assert driver.calls == {}
