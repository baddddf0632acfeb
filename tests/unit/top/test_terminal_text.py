"""top.terminal_text: figures and names in the columns of a terminal."""

from __future__ import annotations

from exporter.model import Identity
from exporter.top import terminal_text
from exporter.top.terminal_text import ASCII, UNICODE


class TestFigures:
    """Figures that may be unknown."""

    def test_unknown_figure_is_a_dash(self) -> None:
        assert (terminal_text.duration(None, UNICODE), terminal_text.share(None, ASCII)) == ("—", "-")

    def test_micro_sign_is_u_in_ascii(self) -> None:
        assert (terminal_text.duration(2.17e-6, UNICODE), terminal_text.duration(2.17e-6, ASCII)) == (
            "2.17µs",
            "2.17us",
        )


class TestWidth:
    """Columns on a terminal."""

    def test_wide_characters_take_two_and_combining_ones_none(self) -> None:
        assert [terminal_text.width_of(text) for text in ("abc", "机器", "e\u0301", "")] == [3, 4, 1, 0]

    def test_text_that_does_not_fit_ends_in_an_ellipsis(self) -> None:
        """Never wider than the limit, also with wide characters."""
        assert terminal_text.fitted("abcdef", 4, UNICODE) == "abc…"
        assert terminal_text.fitted("abcdef", 6, UNICODE) == "abcdef"
        assert terminal_text.fitted("机器人", 4, UNICODE) == "机…"
        assert terminal_text.fitted("abc", 0, UNICODE) == ""


class TestEncodable:
    """Text that is safe for a terminal."""

    def test_control_characters_are_replaced(self) -> None:
        """They could move the cursor."""
        assert terminal_text.encodable("a\x1b[2Jb\n\x07\x9b\u202e", "utf-8") == "a\ufffd[2Jb\ufffd\ufffd\ufffd\ufffd"

    def test_characters_that_the_encoding_lacks_are_question_marks(self) -> None:
        """An error would end the program."""
        assert terminal_text.encodable("机器 µ", "latin-1") == "?? µ"

    def test_glyphs_follow_the_encoding(self) -> None:
        """ASCII for an unknown encoding."""
        assert [terminal_text.glyphs_for(encoding) for encoding in ("UTF-8", "ascii", "latin-1", "klingon")] == [
            UNICODE,
            ASCII,
            ASCII,
            ASCII,
        ]


class TestNames:
    """Names of workloads."""

    def test_node_is_part_of_the_name_on_request(self) -> None:
        """Where there are several nodes."""
        identity = Identity(node="gpu7", rank="3", container="0123456789ab", pod="trainer-0")

        assert terminal_text.name_of(identity, with_node=True) == "rank 3 on gpu7, pod trainer-0"
        assert terminal_text.name_of(identity, with_node=False) == "rank 3, pod trainer-0"

    def test_container_is_named_without_a_pod(self) -> None:
        identity = Identity(container="0123456789ab")

        assert terminal_text.name_of(identity, with_node=True) == "a process without a rank, container 0123456789ab"
