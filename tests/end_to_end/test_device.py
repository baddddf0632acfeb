"""GPUs as the running exporter tells of them: it finds the stand-in's NVML by its name, and a file says what that tells."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import gpustall_standin as standin
from tests.support.exporter_process import Exporter, running
from tests.support.gpus import tell
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("build")]
PATIENCE_SECONDS = 30
GIB = 1 << 30


class Machine(NamedTuple):
    """With two GPUs. state: the file that says what they do."""

    exporter: Exporter
    state: Path

    def total(self, name: str, **labels: str) -> float:
        """Of the metrics now."""
        return self.exporter.scrape().total(name, **labels)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """The exporter, and nothing wrong."""
    need_tracing()
    state = tmp_path / "nvml"
    tell(state)
    environment = standin.environment({"STANDIN_NVML_STATE": str(state), "STANDIN_DEVICES": "2"})
    with running(environment=environment) as exporter:
        found = Machine(exporter, state)
        eventually(lambda: found.total("gpustall_device_up") == 2, "both GPUs answer", PATIENCE_SECONDS)
        yield found


class TestDevice:
    """From the library to /metrics."""

    def test_gpu_that_is_held_down_says_why(self, machine: Machine) -> None:
        """The other one is not."""
        tell(machine.state, "gpu 0 reasons 0x20", "gpu 0 temperature 88")
        throttled = "gpustall_device_throttled_seconds_total"
        eventually(lambda: machine.total(throttled, gpu="0", reason="thermal_sw") > 2, "it is booked", PATIENCE_SECONDS)

        assert machine.total(throttled, gpu="1") == 0
        assert machine.total("gpustall_device_temperature_celsius", gpu="0", part="gpu") == 88

    def test_gpu_that_hangs_costs_neither_the_others_nor_the_stop(self, machine: Machine) -> None:
        """It is not up after five seconds; the exporter ends as fast as ever, with the call still in the library."""
        tell(machine.state, "call nvmlDeviceGetPowerUsage hang 0")
        eventually(lambda: machine.total("gpustall_device_up", gpu="0") == 0, "it is missed", PATIENCE_SECONDS)

        assert machine.total("gpustall_device_up", gpu="1") == 1
        assert machine.total("gpustall_device_errors_total", gpu="0", reason="timeout") == 1
        assert machine.total("gpustall_exporter_collector_success", collector="device") == 1
        began_at = time.monotonic()
        assert machine.exporter.stop() == 0
        assert time.monotonic() - began_at < 5

    def test_memory_is_that_of_the_workload(self, machine: Machine) -> None:
        """By the process id that the driver tells; what is left is one sum."""
        command = standin.trainer_command("--ranks=1", "--steps=0", "--quiet")
        with subprocess.Popen(command, env=standin.environment(dict(os.environ)), start_new_session=True) as job:
            try:
                (info,) = eventually(
                    lambda: machine.exporter.scrape().matching("gpustall_workload_info"),
                    "it is traced",
                    PATIENCE_SECONDS,
                )
                tell(machine.state, f"gpu 0 process {info.labels['pid']} {GIB}", "gpu 0 process 1 4096")
                memory = "gpustall_device_process_memory_bytes"
                eventually(lambda: machine.total(memory, gpu="0", rank="0") == GIB, "it is told", PATIENCE_SECONDS)

                assert machine.total("gpustall_device_untraced_memory_bytes", gpu="0") == 4096
            finally:
                os.killpg(job.pid, signal.SIGKILL)
