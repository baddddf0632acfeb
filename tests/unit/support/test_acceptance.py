"""tests.acceptance: the verdict of a row, and the table."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import acceptance
from tests.acceptance import Row, result_of, table

ROW = Row("rig", ("true",), "no test fails", 20)


@pytest.mark.parametrize(
    ("status", "output", "figure", "verdict"),
    [
        (0, "....\n4 passed, 1 skipped in 12.34s\n", "4 passed, 1 skipped", "passed"),
        (1, "==== 1 failed, 4 passed in 62.00s (0:01:02) ====\n", "1 failed, 4 passed", "failed"),
        (5, "3 deselected in 1.00s\n", "3 deselected", "left out"),
        (
            0,
            "conformance: left out: no Go toolchain on PATH\n",
            "conformance: left out: no Go toolchain on PATH",
            "left out",
        ),
        (0, "| a | table |\n\n", "| a | table |", "passed"),
        (None, "....\n", "not done in 20 minutes", "failed"),
        (2, "", "no output", "failed"),
    ],
)
def test_verdict_follows_from_the_exit_status(status: int | None, output: str, figure: str, verdict: str) -> None:
    found = result_of(ROW, status, output, 62.4)

    assert (found.figure, found.verdict, found.seconds) == (figure, verdict, 62)


def test_a_failed_row_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has both rows, and is kept with them."""
    rows = [
        Row(name, (sys.executable, "-c", f"import sys; sys.exit({n})"), "b", 1) for n, name in ((1, "one"), (0, "two"))
    ]
    monkeypatch.setattr(acceptance, "ROWS", rows)
    monkeypatch.setattr(acceptance, "LOGS", tmp_path)
    monkeypatch.setattr(acceptance, "keep", lambda found, keep=acceptance.keep: keep(found, tmp_path / "kept.json"))
    monkeypatch.setattr(sys, "argv", ["acceptance"])

    assert acceptance.main() == 1
    assert [row["verdict"] for row in json.loads((tmp_path / "kept.json").read_text())["rows"]] == ["failed", "passed"]
    assert "| two | no output | b | passed |" in capsys.readouterr().out


def test_table_is_markdown() -> None:
    assert table([result_of(ROW, 0, "4 passed in 1.00s\n", 1)]).splitlines()[2] == (
        "| rig | 4 passed | no test fails | passed | 1 s |"
    )
