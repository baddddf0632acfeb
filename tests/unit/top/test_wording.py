"""wording: figures and names as they are to be read."""

from __future__ import annotations

import pytest

from exporter.model import Identity
from exporter.top import wording
from exporter.top.wording import ASCII, UNICODE


class TestFigures:
    """Three digits and a unit."""

    @pytest.mark.parametrize(
        ("length_seconds", "text"),
        [
            (None, "—"),
            (0.0, "0s"),
            (850e-9, "850ns"),
            (2.17e-6, "2.17µs"),
            (999.4e-6, "999µs"),
            (999.6e-6, "1.00ms"),
            (13.14e-3, "13.1ms"),
            (1.2449, "1.24s"),
            (59.9, "59.9s"),
            (59.96, "1m00s"),
            (123.0, "2m03s"),
            (3720.0, "1h02m"),
            (float("inf"), ">68m"),
        ],
    )
    def test_duration(self, length_seconds: float | None, text: str) -> None:
        """What is not known is a dash."""
        assert wording.duration(length_seconds, UNICODE) == text

    def test_duration_in_ascii(self) -> None:
        """u stands for micro."""
        assert (wording.duration(2.17e-6, ASCII), wording.duration(None, ASCII)) == ("2.17us", "-")

    @pytest.mark.parametrize(
        ("part", "text"),
        [
            (None, "—"),
            (0.0, "0%"),
            (0.0004, "<0.1%"),
            (0.021, "2.1%"),
            (0.0994, "9.9%"),
            (0.0996, "10%"),
            (1.23, "123%"),
        ],
    )
    def test_share(self, part: float | None, text: str) -> None:
        """Little is not nothing."""
        assert wording.share(part, UNICODE) == text

    @pytest.mark.parametrize(
        ("per_second", "text"),
        [(0, "0"), (0.965, "0.96"), (53.1, "53.1"), (480, "480"), (8496, "8.50k"), (1.2e6, "1.20M"), (3e10, "30G")],
    )
    def test_rate(self, per_second: float, text: str) -> None:
        """A second."""
        assert wording.rate(per_second) == text


class TestWidth:
    """Columns on a terminal."""

    def test_wide_characters_take_two_and_combining_ones_none(self) -> None:
        """As terminals show them."""
        assert [wording.width_of(text) for text in ("abc", "机器", "e\u0301", "")] == [3, 4, 1, 0]

    def test_what_does_not_fit_ends_in_an_ellipsis(self) -> None:
        """Never wider than asked for, half a wide character included."""
        assert wording.fitted("abcdef", 4, UNICODE) == "abc…"
        assert wording.fitted("abcdef", 6, UNICODE) == "abcdef"
        assert wording.fitted("机器人", 4, UNICODE) == "机…"
        assert wording.fitted("abc", 0, UNICODE) == ""


class TestShown:
    """What may reach a terminal."""

    def test_control_characters_do_not(self) -> None:
        """They could move the cursor, or worse."""
        assert wording.shown("a\x1b[2Jb\n\x07\x9b\u202e", "utf-8") == "a\ufffd[2Jb\ufffd\ufffd\ufffd\ufffd"

    def test_what_the_encoding_has_not_is_a_question_mark(self) -> None:
        """Rather than the end of the program."""
        assert wording.shown("机器 µ", "latin-1") == "?? µ"

    def test_glyphs_follow_the_encoding(self) -> None:
        """One that nobody knows has letters at the least."""
        assert [wording.glyphs_for(encoding) for encoding in ("UTF-8", "ascii", "latin-1", "klingon")] == [
            UNICODE,
            ASCII,
            ASCII,
            ASCII,
        ]


class TestNames:
    """Whose it is."""

    def test_node_is_said_where_there_are_several(self) -> None:
        """Else it says nothing."""
        identity = Identity(node="gpu7", rank="3", container="0123456789ab", pod="trainer-0")

        assert wording.name_of(identity, with_node=True) == "rank 3 on gpu7, pod trainer-0"
        assert wording.name_of(identity, with_node=False) == "rank 3, pod trainer-0"

    def test_container_stands_in_for_a_pod(self) -> None:
        """And nothing for a rank."""
        identity = Identity(container="0123456789ab")

        assert wording.name_of(identity, with_node=True) == "a process without a rank, container 0123456789ab"
