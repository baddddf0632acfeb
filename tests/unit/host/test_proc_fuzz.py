"""processes and mappings with hostile text: an answer or one of our own exceptions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.errors import ProcessGone
from exporter.host.libraries import among
from exporter.host.mappings import parse_executable_mappings
from exporter.host.processes import parse_environ, parse_stat
from exporter.text.printable import printable_bytes

from .process_tree import stat_line
from .test_mappings import MAPS

words = st.lists(
    st.sampled_from([b"7", b"(", b")", b" ", b"\n", b"\0", b"-", b"9" * 30, b"S", b"\xff", b"r-xp", b"/libcudart.so"]),
    max_size=60,
).map(b"".join)
texts = st.one_of(st.binary(max_size=300), words)


def replaced(text: bytes, position: int, piece: bytes) -> bytes:
    position %= len(text)
    return text[:position] + piece + text[position + len(piece) :]


class TestHostileText:
    """Text of an observed process, or a broken /proc."""

    @settings(max_examples=200, deadline=None)
    @given(texts, st.integers(0, 200))
    def test_stat_is_read_or_the_process_is_gone(self, text: bytes, position: int) -> None:
        """Random bytes, and a valid line with a random piece."""
        for line in (text, replaced(stat_line(7), position, text[:20])):
            try:
                stat = parse_stat(7, line)
            except ProcessGone:
                continue
            assert stat.comm.isprintable()
            assert stat.start_time_ticks >= 0

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=40).filter(lambda comm: b"\0" not in comm))
    def test_no_command_moves_the_start_time(self, comm: bytes) -> None:
        """A command may imitate the fields after it."""
        assert parse_stat(7, stat_line(7, comm, 4711)).start_time_ticks == 4711

    @settings(max_examples=200, deadline=None)
    @given(texts, st.integers(0, len(MAPS)))
    def test_maps_give_valid_mappings_only(self, text: bytes, position: int) -> None:
        """Random bytes, and valid lines with a random piece."""
        for maps in (text, replaced(MAPS, position, text), text + b"\n" + MAPS):
            for mapping in parse_executable_mappings(maps):
                assert mapping.path.startswith(b"/")
                assert mapping.inode > 0
                assert mapping.shown_path.isprintable()
            among(parse_executable_mappings(maps))

    @settings(max_examples=200, deadline=None)
    @given(texts)
    def test_environment_gives_printable_values_of_wanted_names(self, text: bytes) -> None:
        """Random bytes before, between and after variables."""
        names = frozenset({"RANK", "A"})

        found = parse_environ(text + b"\0RANK=3\0" + text, names)

        assert set(found) <= names
        assert all(value.isprintable() and len(value) <= 256 for value in found.values())
        assert found["RANK"] == "3" or b"RANK=" in text

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=300), st.integers(1, 80))
    def test_printable_text_is_printable_and_short(self, text: bytes, limit: int) -> None:
        """No control character, no surrogate, at most the given length."""
        shown = printable_bytes(text, limit)

        assert shown.isprintable()
        assert len(shown) <= limit
        assert shown.encode("utf-8").decode("utf-8") == shown

    @pytest.mark.parametrize("filler", [b"\0", b"A", b"RANK", b"RANK=", b"\0RANK", b"\0RAN=1", b"=\0"])
    def test_environment_of_2_mib_of_anything_is_searched_quickly(self, filler: bytes) -> None:
        """The search is linear; a quadratic one would not end before the test's time limit."""
        environment = (filler * 2**21)[: 2**21 - 9] + b"\0RANK_=3\0"

        assert parse_environ(environment, frozenset({"RANK_", "ABSENT"})) == {"RANK_": "3"}
