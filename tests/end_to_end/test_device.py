"""GPU metrics of the running exporter: it loads the stand-in's NVML, whose state is in a file."""

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
from tests.support.gpus import write_state
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

# whole_machine: the driver names processes as the machine's PID namespace does.
pytestmark = [pytest.mark.end_to_end, pytest.mark.whole_machine, pytest.mark.usefixtures("build")]
GIB = 1 << 30


class Node(NamedTuple):
    """With two GPUs. state: the stand-in's state file."""

    exporter: Exporter
    state: Path

    def total(self, name: str, **labels: str) -> float:
        """A metric of a new scrape."""
        return self.exporter.scrape().total(name, **labels)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A running exporter, and two GPUs that answer."""
    need_tracing()
    state = tmp_path / "nvml"
    write_state(state)
    environment = standin.environment({"STANDIN_NVML_STATE": str(state), "STANDIN_DEVICES": "2"})
    with running(environment=environment) as exporter:
        found = Node(exporter, state)
        eventually(lambda: found.total("gpustall_device_up") == 2, "both GPUs answer")
        yield found


class TestDevice:
    def test_throttled_gpu_has_its_reason(self, node: Node) -> None:
        """The other one has none."""
        write_state(node.state, "gpu 0 reasons 0x20", "gpu 0 temperature 88")
        throttled = "gpustall_device_throttled_seconds_total"
        eventually(lambda: node.total(throttled, gpu="0", reason="thermal_sw") > 2, "it is booked")

        assert node.total(throttled, gpu="1") == 0
        assert node.total("gpustall_device_temperature_celsius", gpu="0", part="gpu") == 88

    def test_hung_gpu_delays_neither_the_others_nor_the_stop(self, node: Node) -> None:
        """It is not up after five seconds; the exporter stops as usual, with the call still in the library."""
        write_state(node.state, "call nvmlDeviceGetPowerUsage hang 0")
        eventually(lambda: node.total("gpustall_device_up", gpu="0") == 0, "it is missed")

        assert node.total("gpustall_device_up", gpu="1") == 1
        assert node.total("gpustall_device_errors_total", gpu="0", reason="timeout") == 1
        assert node.total("gpustall_exporter_collector_success", collector="device") == 1
        began_at = time.monotonic()
        assert node.exporter.stop() == 0
        assert time.monotonic() - began_at < 5

    def test_memory_counts_for_the_workload(self, node: Node) -> None:
        """By the driver's process id; all other memory is one sum."""
        command = standin.trainer_command("--ranks=1", "--steps=0", "--quiet")
        with subprocess.Popen(command, env=standin.environment(dict(os.environ)), start_new_session=True) as job:
            try:
                (info,) = eventually(lambda: node.exporter.scrape().matching("gpustall_workload_info"), "it is traced")
                write_state(node.state, f"gpu 0 process {info.labels['pid']} {GIB}", "gpu 0 process 1 4096")
                memory = "gpustall_device_process_memory_bytes"
                eventually(lambda: node.total(memory, gpu="0", rank="0") == GIB, "it is exported")

                assert node.total("gpustall_device_untraced_memory_bytes", gpu="0") == 4096
            finally:
                os.killpg(job.pid, signal.SIGKILL)
