"""python.line_table: the line of an instruction. Tables are made by hand, and compared with the interpreter that runs this."""

from __future__ import annotations

import dis

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.python.line_table import TABLE_BYTES_MAX, LineFormat, line_at
from tests.support.counted import lines_run

INCREMENTS, RANGES, LOCATIONS = LineFormat.INCREMENTS, LineFormat.RANGES, LineFormat.LOCATIONS
FIRST = 7
BY_LOCATIONS = bytes.fromhex(
    "99 12"  # two instructions in a short form: the same line
    "d8 04 08"  # one, a line later
    "e7 04 08"  # eight, two lines later
    "e8 0b"  # one, five lines earlier, without columns
    "f0 48 03 00 05 06"  # one, a hundred lines later, in the long form
    "fb"  # four without a line
    "d0 04 08"  # one in the same line as before
)

entries = st.lists(
    st.tuples(st.integers(1, 8), st.one_of(st.none(), st.integers(0, 2), st.integers(-70_000, 70_000))),
    min_size=1,
    max_size=40,
)
"""Instructions, and how many lines later; None for no line."""


def encoded(instructions: int, change: int | None) -> bytes:
    """An entry of a location table. Lines a few later have columns, others have none."""
    if change is None:
        return bytes([0x80 | 15 << 3 | instructions - 1])
    if 0 <= change <= 2:
        return bytes([0x80 | 10 + change << 3 | instructions - 1, 4, 8])
    number = -change << 1 | 1 if change < 0 else change << 1
    made = bytearray([0x80 | 13 << 3 | instructions - 1])
    while number > 0x3F:
        made.append(0x40 | number & 0x3F)
        number >>= 6
    return bytes([*made, number])


class TestByHand:
    @pytest.mark.parametrize(
        ("table", "first", "last", "line"),
        [
            *((b"\x06\x01\x08\xff", *one) for one in [(0, 5, 7), (6, 13, 8), (14, 9999, 7)]),
            *((b"", *one) for one in [(0, 9999, 7)]),
            *((b"\xff\x00\x01\x7f\x00\x7f", *one) for one in [(0, 255, 7), (256, 9999, 261)]),
        ],
    )
    def test_increments(self, table: bytes, first: int, last: int, line: int) -> None:
        """Before 3.10: pairs of bytes of code and a change of the line; after the last one the line stays."""
        assert [line_at(INCREMENTS, table, FIRST, at) for at in (first, last)] == [line, line]

    @pytest.mark.parametrize(("first", "last", "line"), [(0, 5, 7), (6, 13, 8), (14, 15, None), (16, 9999, None)])
    def test_ranges(self, first: int, last: int, line: int | None) -> None:
        """3.10: lengths of ranges of code, and changes of the line; -128 for none."""
        assert [line_at(RANGES, b"\x06\x00\x08\x01\x02\x80", FIRST, at) for at in (first, last)] == [line, line]

    @pytest.mark.parametrize(
        ("first", "last", "line"),
        [
            (0, 3, 7),
            (4, 5, 8),
            (6, 21, 10),
            (22, 23, 5),
            (24, 25, 105),
            (26, 33, None),
            (34, 35, 105),
            (36, 9999, None),
        ],
    )
    def test_locations(self, first: int, last: int, line: int | None) -> None:
        """Since 3.11: each kind of entry once."""
        assert [line_at(LOCATIONS, BY_LOCATIONS, FIRST, at) for at in (first, last)] == [line, line]

    @pytest.mark.parametrize("line_format", list(LineFormat))
    def test_function_that_has_not_begun_is_at_its_first_line(self, line_format: LineFormat) -> None:
        assert line_at(line_format, b"", FIRST, -2) == FIRST

    @pytest.mark.parametrize(
        ("line_format", "table"),
        [
            (INCREMENTS, b"\x00\x80"),  # line -121
            (RANGES, b"\x10\x81"),  # line -120
            (LOCATIONS, b"\xe8\x3f"),  # line -24
            (LOCATIONS, b"\x00\x00"),  # no entry begins so
            (LOCATIONS, b"\xe8"),  # a number is missing
            (LOCATIONS, b"\xe8" + b"\x7f" * 9),  # a number of more bits than a line has
            (LOCATIONS, b"\xe8\x7e\x7f\x7f\x7f\x7f\x3f"),  # line 34,359,738,374
        ],
    )
    def test_table_that_no_compiler_makes_has_no_line(self, line_format: LineFormat, table: bytes) -> None:
        assert line_at(line_format, table, FIRST, 0) is None

    def test_line_behind_the_end_of_a_part_is_unknown(self) -> None:
        """Where a table is cut, its last line is not that of the rest."""
        found = [line_at(INCREMENTS, b"\x06\x01", FIRST, at, is_cut=True) for at in (0, 6)]

        assert found == [7, None]


class TestProperties:
    @settings(max_examples=200, deadline=None)
    @given(entries)
    def test_every_line_is_that_of_the_running_interpreter(self, made: list[tuple[int, int | None]]) -> None:
        """A table of any lines, in a code object of as many instructions."""
        table = b"".join(encoded(*one) for one in made)
        code = bytes([dis.opmap["NOP"], 0]) * sum(instructions for instructions, _ in made)
        template = compile("0", "a.py", "eval")
        positions = template.replace(co_code=code, co_linetable=table, co_firstlineno=200_000).co_positions()
        expected = [line if line is None or line >= 0 else None for line, *_ in positions]

        assert [line_at(LOCATIONS, table, 200_000, at) for at in range(0, len(code), 2)] == expected

    @settings(max_examples=300, deadline=None)
    @given(st.sampled_from(LineFormat), st.binary(max_size=300), st.integers(0, 1 << 31), st.integers(-2, 1 << 40))
    def test_any_bytes_give_a_line_or_none(
        self, line_format: LineFormat, table: bytes, first: int, offset: int
    ) -> None:
        line = line_at(line_format, table, first, offset)

        assert line is None or 0 <= line < 1 << 32

    @pytest.mark.parametrize("line_format", list(LineFormat))
    @pytest.mark.parametrize("filling", [b"\x00", b"\x80", b"\xe8\x7f\x7f\x7f\x7f\x7f", b"\xff", b"\x7f"])
    def test_at_most_64_kib_of_a_table_are_read(self, line_format: LineFormat, filling: bytes) -> None:
        """A megabyte costs the lines of Python that its beginning costs, at most sixteen for a byte."""
        table = filling * (16 * TABLE_BYTES_MAX // len(filling))
        whole, beginning = (
            lines_run(lambda given=given: line_at(line_format, given, FIRST, 1 << 40))  # type: ignore[misc]
            for given in (table, table[: TABLE_BYTES_MAX + 1])
        )

        assert whole == beginning
        assert whole < 16 * TABLE_BYTES_MAX
