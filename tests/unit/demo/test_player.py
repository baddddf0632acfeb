"""demo.player: what a live demo prints, and the recording it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.chains.chain import Change
from exporter.demo.live import LiveRun, Progress, Watch
from exporter.demo.player import event_line, play_live, save_recording
from exporter.demo.scenarios import SCENARIOS
from exporter.errors import BadInput
from exporter.recording import file
from tests.support.history import an_event

RECORDING = file.read(SCENARIOS["cpu-contention"].recording)
NOTHING = LiveRun((), (), (), 0, None)


class TestEventLine:
    def test_opening_has_its_sentence(self) -> None:
        assert event_line(an_event(), 12.34) == (
            " 12.3 s  chain opened: cpu_contention: 46 % of the time is lost to it, steps take 1.9 times as long, culprit"
            " stress-ng (94 %)"
        )

    def test_evidence_has_its_first_piece(self) -> None:
        event = an_event(change=Change.EVIDENCE, evidence=("thread 1 is at", "  read"))

        assert event_line(event, 3.0) == "  3.0 s  chain evidence: thread 1 is at"


class TestPlayLive:
    def test_events_are_printed_as_they_come(self) -> None:
        """After a line on what is about to happen; progress is for terminals."""
        printed: list[str] = []

        def play(name: str, duration_seconds: float, watch: Watch) -> LiveRun:
            printed.append(f"{name} for {duration_seconds:.0f} s")
            watch(Progress(1.0, False, 9, 0.02), ())
            watch(Progress(2.0, True, 99, 0.03), (an_event(), an_event(change=Change.EVIDENCE, evidence=("a", "b"))))
            return NOTHING

        assert play_live(play, SCENARIOS["hang"], 22.0, printed.append) is NOTHING
        assert printed[0].startswith("Live: ")
        assert printed[1:] == ["hang for 22 s", event_line(an_event(), 2.0), "  2.0 s  chain evidence: a"]


class TestSaveRecording:
    def test_file_can_be_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "saved.capsule"
        save_recording(NOTHING._replace(recording=RECORDING), path, self.never)

        assert file.read(path).compressed_ticks == RECORDING.compressed_ticks

    def test_run_without_a_recording_writes_no_file(self, tmp_path: Path) -> None:
        printed: list[str] = []
        for recording in (None, replace(RECORDING, compressed_ticks=())):
            save_recording(NOTHING._replace(recording=recording), tmp_path / "saved.capsule", printed.append)

        assert [line[:20] for line in printed] == ["Nothing was recorded"] * 2
        assert list(tmp_path.iterdir()) == []

    def test_missing_directory_is_bad_input(self, tmp_path: Path) -> None:
        path = tmp_path / "gone" / "saved.capsule"
        with pytest.raises(BadInput) as raised:
            save_recording(NOTHING._replace(recording=RECORDING), path, self.never)

        assert str(raised.value) == f"--save: cannot write {path}: No such file or directory"

    @staticmethod
    def never(line: str) -> None:
        raise AssertionError(line)
