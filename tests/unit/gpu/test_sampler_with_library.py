"""sampler: the same with the real nvidia-ml-py on the stand-in's library, in a child process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from exporter.gpu.model import FailureKind
from exporter.gpu.sampled_gpu import SamplerTiming
from tests.support import nvml_child as there
from tests.support.gpus import Child, with_driver
from tests.support.patience import PATIENCE_SECONDS
from tests.support.standin_gpu import built
from tests.support.traced import eventually


class TestWithLibrary:
    """GPUs of the stand-in's state file."""

    @pytest.fixture
    def child(self, tmp_path: Path) -> Iterator[Child]:
        """With three GPUs."""
        built()
        one = Child(tmp_path / "state", STANDIN_DEVICES="3", **with_driver())
        one.write_state()
        one.call(there.sampler, SamplerTiming(0.01, 1.0, 10.0, 0.0, 0.0, 0.0))
        yield one
        one.close()

    @staticmethod
    def sampled(child: Child, *wanted: str) -> Mapping[tuple[str, FailureKind], int]:
        """Failures until exactly these GPUs had a sample."""

        def troubles() -> tuple[Mapping[tuple[str, FailureKind], int]] | None:
            known, found = child.call(there.rounds)
            return (found,) if {one.facts.gpu for one in known if one.sample} == set(wanted) else None

        (found,) = eventually(troubles, "they have samples")
        return found

    def test_call_that_hangs_in_the_library_costs_one_gpu(self, child: Child) -> None:
        """The interpreter's lock is not held; the GPU is sampled again when the call returns."""
        child.write_state("call nvmlDeviceGetPowerUsage hang 1")
        self.sampled(child, "0", "2")
        child.write_state()

        assert self.sampled(child, "0", "1", "2")["1", FailureKind.TIMEOUT] == 1

    def test_stop_and_exit_do_not_wait_for_a_hanging_call(self, child: Child) -> None:
        """The process ends with the call still in the library."""
        child.write_state("call nvmlDeviceGetPowerUsage hang 0")
        child.call(there.start)
        assert child.call(there.wait_for, "0", FailureKind.TIMEOUT, PATIENCE_SECONDS)

        assert child.call(there.seconds_to_stop) < 2
        child.close()

    def test_lost_gpu_that_comes_back_is_sampled_again(self, child: Child) -> None:
        child.call(there.rounds)
        child.write_state("gpu 2 lost 1", "gpu 2 xid 1 79")
        known, troubles = child.call(there.rounds)
        assert troubles == {("2", FailureKind.LOST): 1}
        child.write_state("gpu 2 power 23")
        known, troubles = child.call(there.rounds)

        assert known[2].sample.power_mw == 23
        assert troubles == {("2", FailureKind.LOST): 1}

    def test_driver_reloaded_with_fewer_gpus(self, child: Child) -> None:
        """It was missing in between."""
        child.call(there.rounds)
        child.write_state("reloads -1")
        child.call(there.rounds, 3)
        child.write_state("reloads 1", "devices 2", "driver 570.86.15")
        known, troubles = child.call(there.rounds, 2)

        assert [one.facts.driver_version for one in known] == ["570.86.15", "570.86.15", "550.54.15"]
        assert {trouble for _, trouble in troubles} == {FailureKind.RELOADED}

    def test_mig_enabled_between_two_samples(self, child: Child) -> None:
        """The old handles become invalid; instances have states of their own."""
        child.call(there.rounds)
        child.write_state("gpu 0 handles 1", "gpu 0 mig 1", "gpu 0 instance 7 1000 10", "gpu 0 instance_process 7 5 10")
        _, troubles = child.call(there.rounds, 2)
        states = {(one.gpu, one.mig): one for one in child.call(there.states)}

        assert troubles == {("0", FailureKind.RECONFIGURED): 1}
        assert set(states) == {("0", ""), ("0", "7"), ("1", ""), ("2", "")}
        assert states["0", "7"].process_bytes == {5: 10}
