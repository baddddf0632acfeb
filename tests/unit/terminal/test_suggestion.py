"""suggestion: only people see it."""

from __future__ import annotations

import pytest

from exporter.terminal.suggestion import suggest


class TestSuggestion:
    def test_nothing_is_printed_where_no_person_reads(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Neither stream is a terminal."""
        suggest("query --list")

        assert capsys.readouterr() == ("", "")
