"""The stand-in's NVML: the file that sets what it reports. What it reports is tested in tests/unit/gpu/test_nvml.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gpus import with_driver
from tests.support.patience import PATIENCE_SECONDS
from tests.support.standin_gpu import built, output

SCRIPT = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"


def run_counter(state: Path, *lines: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program that counts the GPUs. state: the file, with these lines."""
    built()
    state.write_text("".join(f"{line}\n" for line in lines))
    environment = {"STANDIN_NVML_STATE": str(state), **with_driver(), **variables}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


class TestFile:
    """The syntax is in src/nvml/state.h."""

    @pytest.mark.parametrize(
        "line",
        [
            "gpus 3",
            "devices many",
            "gpu 0",
            "gpu 16 power 1",
            "gpu 0 colour 1",
            "gpu 0 power",
            "gpu 0 process 5",
            "gpu 0 instance 7",
            "gpu 0 xid 1",
            "gpu 0 field 3",
            "call nvmlInit",
            "call nvmlInit often",
        ],
    )
    def test_line_with_a_syntax_error_ends_the_program(self, tmp_path: Path, line: str) -> None:
        """Otherwise a misspelt fault would never occur."""
        done = run_counter(tmp_path / "state", line)

        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"standin: STANDIN_NVML_STATE: not understood: {line}\n"

    def test_comments_and_empty_lines_are_ignored(self, tmp_path: Path) -> None:
        """Trailing spaces are, too."""
        done = run_counter(tmp_path / "state", "# two of them", "", "devices 2   # not eight", "gpu * name A B  ")

        assert (done.stdout, done.stderr) == ("2\n", "")

    def test_without_a_file_there_are_as_many_gpus_as_for_cuda(self, tmp_path: Path) -> None:
        """STANDIN_DEVICES, else eight."""
        state = tmp_path / "state"

        assert run_counter(state, STANDIN_NVML_STATE="").stdout == "8\n"
        assert run_counter(state, STANDIN_NVML_STATE="", STANDIN_DEVICES="3").stdout == "3\n"


class TestOldDriver:
    """libnvidia-ml-470.so."""

    def test_it_lacks_what_came_later(self) -> None:
        """And nothing else."""
        names = [
            set(output("nm", "-D", "--defined-only", "--format=posix", str(built() / name)).split())
            for name in ("libnvidia-ml.so.1", "libnvidia-ml-470.so")
        ]
        functions = [{one for one in found if one.startswith("nvml")} for found in names]

        assert functions[0] - functions[1] == {
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetComputeRunningProcesses_v3",
        }
        assert functions[1] < functions[0]
