"""Lines of a width, broken between words."""

from __future__ import annotations

from exporter.text.wrapping import words, wrapped

PATH = "/usr/lib/x86_64-linux-gnu/libcudart.so.12"


class TestWords:
    def test_lines_break_between_words(self) -> None:
        assert words("the process that holds the CPU", 12) == ["the process", "that holds", "the CPU"]

    def test_word_longer_than_a_line_stays_whole(self) -> None:
        """A path can be copied."""
        assert words(f"see {PATH} there", 20) == ["see", PATH, "there"]


class TestWrapped:
    def test_line_that_fits_stays(self) -> None:
        assert wrapped("  why     disk", 14, 10) == ["  why     disk"]

    def test_continuation_stands_below_the_text(self) -> None:
        assert wrapped("  why     lost time by cause", 20, 10) == ["  why     lost time", "          by cause"]

    def test_output_that_is_no_terminal_is_not_wrapped(self) -> None:
        """A program may read it by line."""
        assert wrapped("word " * 99, None, 0) == ["word " * 99]

    def test_columns_fewer_than_the_indent_leave_a_word_per_line(self) -> None:
        assert wrapped("  why     lost time", 5, 10) == ["  why     lost", "          time"]
