"""merge: flags, and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.__main__ import main
from tests.support.investigated import an_hour


class TestOutput:
    def test_counts_and_clocks_are_stated(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        output = tmp_path / "cluster.sqlite"
        history = str(an_hour(tmp_path))

        assert main(["merge", history, history, "-o", str(output)]) == 0
        assert capsys.readouterr() == (
            f"{output}: 2 runs of the exporter, 6 intervals of windows and 4 chain events, from 2 files\n"
            "times are those of each node's clock: differences between clocks are not known, since no communicator was seen on"
            " two nodes, and nothing is corrected\n",
            "",
        )
        assert output.stat().st_mode & 0o777 == 0o640

    @pytest.mark.parametrize(
        ("arguments", "code", "line"),
        [
            (["/nonexistent"], 2, "want --output=FILE, a new file"),
            (["/nonexistent", "--output=/tmp"], 2, "/tmp exists"),
            (["/nonexistent", "--output=/nonexistent/out"], 3, "no history at /nonexistent"),
            (["/etc/passwd", "--output=/nonexistent/out"], 3, "/etc/passwd is not a history of this program"),
        ],
    )
    def test_refusal_is_one_line(
        self, arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["merge", *arguments]) == code
        printed = capsys.readouterr()

        assert printed.out == ""
        assert printed.err.startswith(f"gpu-stall-exporter: {line}")
        assert printed.err.count("\n") == 1
