"""export: where the timeline goes, and what is refused. tests/contract/test_trace_processor.py has Perfetto read it."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.demo.scenarios import SCENARIOS
from tests.support.hostile_files import make_history

RECORDING = f"--recording={SCENARIOS['hang'].recording}"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A chain is open, and rank 3 had a window just now."""
    path = tmp_path / "state" / "history.sqlite"
    make_history(path, now_unix_ns=time.time_ns())
    return path


class TestOutput:
    def test_pipe_gets_the_trace(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        assert main(["export", RECORDING]) == 0
        printed = capsysbinary.readouterr().out

        assert printed.startswith(b"\x0a")
        assert b"nccl_hang" in printed

    def test_chrome_is_one_document(self, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        assert main(["export", RECORDING, "--format=chrome", "--output=-"]) == 0
        assert json.loads(capsysbinary.readouterr().out)["traceEvents"]

    def test_file_is_named_with_its_size(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "t.pftrace"
        assert main(["export", RECORDING, f"--output={path}", "--workload=rank=1"]) == 0
        wrote, then = capsys.readouterr().out.splitlines()

        assert wrote.startswith(f"wrote {path}, ")
        assert then.startswith("open it at https://ui.perfetto.dev")

    def test_others_may_not_read_the_file(self, tmp_path: Path) -> None:
        """It holds names of programs, pods and source files, as the history does."""
        path = tmp_path / "t.pftrace"
        assert main(["export", RECORDING, f"--output={path}"]) == 0

        assert stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXO == 0

    def test_history_is_exported(self, history: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        assert main(["export", f"--history.path={history}"]) == 0
        assert b"stress-ng" in capsysbinary.readouterr().out

    def test_span_may_end_in_the_past(self, history: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        """The chain was not yet open a minute ago, and nothing else was there."""
        assert main(["export", f"--history.path={history}", "--at=90m"]) == 3
        assert b"no process made a traced call in this time" in capsysbinary.readouterr().err


class TestRefusal:
    """One line, the exit code of `explain`, and no file."""

    def test_workload_that_does_not_exist(
        self, tmp_path: Path, history: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "t.pftrace"
        assert main(["export", f"--history.path={history}", "--workload=rank=7", f"--output={path}"]) == 2

        assert "no process matches 'rank=7'; there are rank 3 (pid 100)" in capsys.readouterr().err
        assert [one.name for one in tmp_path.iterdir()] == ["state"]

    def test_recording_that_is_cut_off(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "cut.capsule"
        path.write_bytes(SCENARIOS["hang"].recording.read_bytes()[:-100])

        assert main(["export", f"--recording={path}"]) == 2
        assert "is truncated" in capsys.readouterr().err

    def test_history_that_is_missing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["export", f"--history.path={tmp_path / 'history.sqlite'}"]) == 3
        assert "no history at" in capsys.readouterr().err

    def test_span_without_a_process(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "state" / "history.sqlite"
        make_history(path, now_unix_ns=time.time_ns() - 7200 * 10**9)

        assert main(["export", f"--history.path={path}"]) == 3
        assert capsys.readouterr().err.endswith("no process made a traced call in this time; increase --since\n")

    def test_folder_that_is_missing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["export", RECORDING, f"--output={tmp_path / 'none' / 't'}"]) == 2
        assert capsys.readouterr().err.startswith("gpu-stall-exporter: --output: cannot write ")

    def test_output_that_is_a_link(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "t.pftrace"
        path.symlink_to(tmp_path / "other")

        assert main(["export", RECORDING, f"--output={path}"]) == 2
        assert "a symbolic link" in capsys.readouterr().err
