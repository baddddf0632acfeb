"""The manual page as text; tests/end_to_end/test_completion.py formats it."""

from __future__ import annotations

from exporter.manual.command import Command, Flag
from exporter.manual.page import man

TOP = Command("top", "show `x`", "p top [flags]", (Flag("--sort", "ORDER", (), ".first \\ word", True),), ("a", "b"))


class TestPage:
    def test_text_cannot_be_a_macro_or_an_escape_sequence(self) -> None:
        """roff reads a dot at the begin of a line, and every backslash."""
        lines = man("p", [TOP]).splitlines()

        assert "\\fB\\-\\-sort\\fR=\\fIORDER\\fR" in lines
        assert "\\&.first \\e word" in lines
        assert "Show \\(gax\\(ga." in lines

    def test_flags_of_run_are_not_repeated_for_check(self) -> None:
        one, other = (Flag(name, "", (), "text", True) for name in ("--node", "--format"))
        page = man("p", [Command("run", "r", "p run", (one,), ()), Command("check", "c", "p check", (other, one), ())])

        assert page.count("\\-\\-node") == 1
        assert page.count("\\-\\-format") == 1
