"""demo.progress_line: a bar on a terminal."""

from __future__ import annotations

import pytest

from exporter.demo.live import Progress
from exporter.demo.progress_line import ProgressLine

CLEAR = "\r\033[K"


def shown(capsys: pytest.CaptureFixture[str], progress: Progress, *, is_terminal: bool = True) -> str:
    """What is written of a demo of 48 s; one column of the bar is 2 s."""
    ProgressLine(48.0, is_terminal=is_terminal).show(progress)
    return capsys.readouterr().err


class TestShow:
    def test_bar_time_and_step_replace_the_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert shown(capsys, Progress(12.0, False, 9, 0.0204)) == (
            f"{CLEAR}[######..................] 12.0 s  step of 20.4 ms"
        )

    def test_fault_is_mentioned_while_it_lasts(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert shown(capsys, Progress(12.0, True, 9, 0.0204)).endswith("step of 20.4 ms, with the fault")

    def test_first_step_may_take_a_while(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert shown(capsys, Progress(0.0, False, 0, None)) == f"{CLEAR}[{'.' * 24}]  0.0 s  no step yet"

    def test_bar_is_full_after_the_duration(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert f"[{'#' * 24}]" in shown(capsys, Progress(60.0, False, 9, 0.02))

    def test_nothing_is_written_elsewhere(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A pipe would keep every state."""
        assert shown(capsys, Progress(12.0, False, 9, 0.02), is_terminal=False) == ""
