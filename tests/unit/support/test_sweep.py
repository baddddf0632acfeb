"""support.sweep: what belongs to a run that is over, and settings of the machine that come back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import sweep

CHILD = "import os; os.environ.pop('TEST_RUN'); from tests.support import sweep; print(sweep.begin_run())"


@pytest.fixture(autouse=True)
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in place of a setting of the kernel."""
    monkeypatch.setattr(sweep, "RECORDS", tmp_path / "records")
    (tmp_path / "setting").write_text("0\n")
    return tmp_path / "setting"


def ended_run() -> str:
    return subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout.strip()


class TestRun:
    def test_it_is_over_with_its_first_process(self) -> None:
        assert sweep.is_over(ended_run())
        assert not sweep.is_over(os.environ[sweep.VARIABLE])

    @pytest.mark.parametrize("name", ["", "something", "gpu-stall-exporter:1:1:1", "gpu-stall-exporter:1"])
    def test_one_that_cannot_be_seen_is_not(self, name: str) -> None:
        assert not sweep.is_over(name)

    def test_another_process_with_its_number_is_another_run(self) -> None:
        *parts, started = os.environ[sweep.VARIABLE].split(":")

        assert sweep.is_over(":".join((*parts, f"{int(started) - 1}"))) or parts[1] != sweep.begin_run().split(":")[1]


class TestSettings:
    def test_value_comes_back(self, setting: Path) -> None:
        with sweep.changed(setting, "1"):
            assert setting.read_text() == "1"

        assert setting.read_text() == "0\n"
        assert list(sweep.RECORDS.iterdir()) == []

    def test_first_of_two_runs_leaves_it_to_the_second(self, setting: Path, tmp_path: Path) -> None:
        with sweep.changed(setting, "1"):
            (sweep.RECORDS / "other").write_text(f"other\n{setting}\n1")

        assert setting.read_text() == "1"
        assert (sweep.RECORDS / "other").read_text() == f"other\n{setting}\n0\n"

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to sweep: sudo make test")
    def test_killed_run_s_value_comes_back(self, setting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sweep, "_sweep_by_name", lambda _: None)
        sweep.RECORDS.mkdir()
        (sweep.RECORDS / "one").write_text(f"{ended_run()}\n{setting}\n2\n")
        said: list[str] = []
        sweep.sweep(said.append)

        assert setting.read_text() == "2\n"
        assert "swept: setting one" in said
