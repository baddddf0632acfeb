"""Whether colours are used."""

from __future__ import annotations

import pytest

from exporter.terminal.appearance import is_coloured


class TestColours:
    @pytest.mark.parametrize(
        ("environment", "expected"),
        [
            ({"TERM": "xterm"}, True),
            ({"TERM": "xterm", "NO_COLOR": "1"}, False),
            ({"TERM": "xterm", "NO_COLOR": "0"}, False),
            ({"TERM": "xterm", "NO_COLOR": ""}, True),
            ({"TERM": "dumb"}, False),
            ({}, False),
        ],
    )
    def test_no_color_counts_if_it_is_not_empty(self, environment: dict[str, str], expected: bool) -> None:
        """Whatever its value. A terminal without a name has no colours."""
        assert is_coloured(True, environment) is expected

    def test_file_or_pipe_has_none(self) -> None:
        assert not is_coloured(False, {"TERM": "xterm"})
