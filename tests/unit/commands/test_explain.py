"""explain: which source is explained, in which form, and what --confirm asks before it does anything."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.demo.scenarios import SCENARIOS
from exporter.history.file_guard import claim
from exporter.history.store import Store
from tests.support.history import NOON, SECOND, an_event
from tests.support.hostile_files import make_history

RECORDING = f"--recording={SCENARIOS['cpu-contention'].recording}"


class TestRecording:
    def test_text_names_the_culprit(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", RECORDING]) == 0
        assert "noisy-neighbour" in capsys.readouterr().out

    def test_json_is_one_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", RECORDING, "--format=json"]) == 0
        assert json.loads(capsys.readouterr().out)["processes"]

    def test_table_of_processes_is_added_when_wanted(self, capsys: pytest.CaptureFixture[str]) -> None:
        for flags in ([], ["--per-process"]):
            assert main(["explain", RECORDING, *flags]) == 0
        printed = capsys.readouterr().out

        assert printed.count("switches/s") == 1


class TestAt:
    def test_time_is_named_before_the_verdict(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "state" / "history.sqlite"
        make_history(path, now_unix_ns=time.time_ns() - 600 * SECOND)

        assert main(["explain", f"--history.path={path}", "--at=598s"]) == 0
        as_of, verdict, *_ = capsys.readouterr().out.splitlines()
        assert as_of.startswith("As of ")
        assert as_of.endswith(", 9 min 58 s ago:")
        assert verdict.startswith("rank 3 (pod trainer-0) loses 46 % of its time to cpu_contention")

    def test_other_text_names_the_flag(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "--at=noon"]) == 2
        assert capsys.readouterr().err.startswith(
            "gpu-stall-exporter: --at: invalid value 'noon': want a time in the past"
        )


class TestCompare:
    def history(self, folder: Path) -> Path:
        path = folder / "state" / "history.sqlite"
        make_history(path, now_unix_ns=time.time_ns() - 600 * SECOND)
        return path

    def test_time_spans_are_named(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The process made no call in the later one."""
        assert main(["explain", f"--history.path={self.history(tmp_path)}", "--compare=598s"]) == 0
        head, workload, *missing = capsys.readouterr().out.splitlines()

        assert head.startswith("The 5 min to ")
        assert workload == "  rank 3 (pid 100) did nothing any more"
        assert missing[-1].startswith("Nothing was recorded from ")

    def test_json_is_one_document(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        flags = (f"--history.path={self.history(tmp_path)}", "--at=597s", "--compare=598s", "--format=json")
        assert main(["explain", *flags]) == 0
        (workload,) = json.loads(capsys.readouterr().out)["workloads"]

        assert (workload["rank"], workload["differs"]) == ("3", False)

    def test_recording_has_one_time_span(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", RECORDING, "--compare=1h"]) == 2
        assert capsys.readouterr().err == "gpu-stall-exporter: --compare cannot be combined with --recording\n"


class TestRefusal:
    """One line, and exit code 2."""

    def test_invalid_duration_names_the_flag(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "--since=soon"]) == 2
        assert capsys.readouterr().err.startswith("gpu-stall-exporter: --since: invalid value 'soon'")

    def test_unknown_chain_is_refused_before_consent_is_needed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "state" / "history.sqlite"
        now_unix_ns = time.time_ns()
        file = claim(path)
        store = Store(file, 4 << 20, began_unix_ns=now_unix_ns, version="1.0", has_chains=True)
        store.write([an_event((now_unix_ns - NOON) / SECOND - 10)], [], now_unix_ns)
        store.close()
        file.release()

        assert main(["explain", f"--history.path={path}", "--confirm=2222"]) == 2
        assert "no open chain begins with" in capsys.readouterr().err
