"""printable: text that a tenant chose, without control characters."""

from __future__ import annotations

import pytest

from exporter.text.printable import printable, printable_bytes


class TestPrintable:
    @pytest.mark.parametrize("text", ["", "train.py", "größer 大", "a b"])
    def test_printable_text_is_unchanged(self, text: str) -> None:
        assert printable(text) == text

    @pytest.mark.parametrize("character", ["\n", "\0", "\x1b", "\x7f", "\u202e", "\udcff"])
    def test_other_characters_become_the_replacement_character(self, character: str) -> None:
        """Newlines, escapes, direction marks, lone surrogates."""
        assert printable(f"a{character}b") == "a\ufffdb"


class TestPrintableBytes:
    def test_invalid_utf_8_is_replaced(self) -> None:
        assert printable_bytes(b"a\xffb", 10) == "a\ufffdb"

    def test_text_is_cut_at_the_limit_of_characters(self) -> None:
        """Characters, not bytes: each of these takes three bytes."""
        assert printable_bytes("大大大".encode(), 2) == "大大"

    def test_no_more_is_decoded_than_the_limit_needs(self) -> None:
        """Four bytes a character at most: a cut within one leaves nothing behind the limit."""
        assert printable_bytes("😀😀".encode(), 1) == "😀"
