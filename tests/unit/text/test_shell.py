"""shell: a value is one word of a command, whatever a tenant has put into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.text.shell import shell_word
from tests.support.hostile import HOSTILE
from tests.support.pasted_command import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, ["show"])


class TestShellWord:
    @pytest.mark.parametrize("text", ["/kubepods/pod1/abc", "rank=3", "a.b-c_d:e,f@g%h+i"])
    def test_plain_value_is_unchanged(self, text: str) -> None:
        assert shell_word(text) == text

    @pytest.mark.parametrize(
        ("text", "word"),
        [
            ("a;>pwned;b", "'a;>pwned;b'"),
            ("$(x)", "'$(x)'"),
            ("it's", "'it'\"'\"'s'"),
            ("", "''"),
            ("a\x1bb'", r"$'a\x1bb\x27'"),
            ("\udcff1", r"$'\xff1'"),
            ("\u202ea", r"$'\xe2\x80\xaea'"),
        ],
    )
    def test_other_values_are_quoted(self, text: str, word: str) -> None:
        """Characters that a terminal interprets are written as digits."""
        assert shell_word(text) == word

    def test_there_are_a_hundred_hostile_values(self) -> None:
        assert len(set(HOSTILE)) >= 100

    @pytest.mark.parametrize("value", HOSTILE, ids=ascii)
    def test_shell_passes_on_the_exact_value_and_runs_nothing(self, terminal: Terminal, value: str) -> None:
        word = shell_word(value)

        assert terminal.paste(f"show {word}") == [["show", value]]
        assert terminal.made == []
        assert word.isprintable()

    def test_value_ends_at_a_nul(self) -> None:
        """The kernel's texts do as well."""
        assert shell_word("a\0;b") == "a"
