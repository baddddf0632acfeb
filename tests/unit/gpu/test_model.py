"""model: the state of a GPU for the chain detector."""

from __future__ import annotations

import pytest

from exporter.gpu.model import GpuMemory, GpuProcess, GpuState, Instance, Sample, link_bytes_per_second, states_of
from tests.support.gpus import record


class TestLink:
    """What PCIe can carry one way."""

    @pytest.mark.parametrize(
        ("generation", "width", "gigabytes"),
        [(1, 16, 4.0), (3, 16, 15.754), (4, 16, 31.508), (5, 16, 63.015), (5, 8, 31.508), (6, 16, 121.0)],
    )
    def test_bandwidth_is_that_of_the_specification(self, generation: int, width: int, gigabytes: float) -> None:
        """Without the encoding, with packet headers."""
        assert link_bytes_per_second(generation, width) == pytest.approx(gigabytes * 1e9, rel=1e-4)

    @pytest.mark.parametrize(("generation", "width"), [(None, 16), (5, None), (9, 16), (0, 0)])
    def test_unknown_link_has_bandwidth_0(self, generation: int | None, width: int | None) -> None:
        """Never a guess."""
        assert link_bytes_per_second(generation, width) == 0


class TestStates:
    """states_of()."""

    def test_state_of_a_gpu(self) -> None:
        """Its number, throttling, link, memory and processes."""
        sample = Sample(
            link_generation=3,
            link_width=8,
            memory=GpuMemory(total_bytes=100, used_bytes=30, free_bytes=60, reserved_bytes=10),
            processes=(GpuProcess(4242, 30),),
        )
        told = states_of(record(sample, throttled_ns={"power": 7}))

        assert told == (GpuState("0", "", {"power": 7}, 8e9 * 128 / 130, 100, {4242: 30}),)

    def test_instances_follow_their_gpu(self) -> None:
        """Each with its own memory and processes; clocks and link are shared."""
        inside = (GpuProcess(5, 4),)
        instance = Instance("7", "MIG-1", "1g", GpuMemory(total_bytes=10, used_bytes=4, free_bytes=6), inside)
        sample = Sample(memory=GpuMemory(100, 4, 96), is_mig=True, instances=(instance,), processes=inside)
        whole, part = states_of(record(sample, throttled_ns={"power": 7}))

        assert (whole.mig, whole.memory_total_bytes, whole.process_bytes) == ("", 100, {5: 4})
        assert (part.mig, part.memory_total_bytes, part.process_bytes) == ("7", 10, {5: 4})
        assert part.throttled_ns == whole.throttled_ns

    def test_missing_values_are_0(self) -> None:
        """A process without a reported size is listed with 0."""
        (told,) = states_of(record(Sample(processes=(GpuProcess(5, None),))))

        assert told == GpuState("0", "", {}, 0.0, 0, {5: 0})

    def test_gpu_without_a_sample_has_no_state(self) -> None:
        assert states_of(record(None)) == ()
