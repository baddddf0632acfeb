"""The line of an instruction, by the line table of its code object, in the three formats of Python 3.7 to 3.14.

In: the bytes of a table, which the observed process may have written. Out: a line, or None where the table has none, also for
bytes that are no table. A table is read from its start, once for each question.
Source: Objects/lnotab_notes.txt of CPython 3.9 and 3.10; Objects/locations.md (InternalDocs/code_objects.md) since 3.11.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

TABLE_BYTES_MAX: Final = 64 << 10
"""A function of 3,000 lines takes about 50 KiB. What lies behind in a longer table is unknown."""
LINE_MAX: Final = (1 << 31) - 1
_CHUNKS_MAX: Final = 6
"""Pieces of six bits of one number: the largest line has 31 bits, and its sign."""

_ENTRY: Final = 0x80
"""Set in the first byte of each entry of a location table, and in no other."""
_SAME_LINE, _ONE_LINE_LATER, _TWO_LINES_LATER, _LINE_ONLY, _LONG, _NO_LOCATION = range(10, 16)


class LineFormat(enum.Enum):
    """Which table a code object has."""

    INCREMENTS = "increments"  # before 3.10: co_lnotab, bytes of code and lines, both relative
    RANGES = "ranges"  # 3.10, PEP 626: length of each range of code, and the difference of its line
    LOCATIONS = "locations"  # since 3.11, PEP 657: entries of different lengths, with columns


def line_at(line_format: LineFormat, table: bytes, first_line: int, offset: int, *, is_cut: bool = False) -> int | None:
    """The line of the instruction at `offset`.

    first_line: co_firstlineno. offset: in bytes from the first instruction; below 0 the function has not begun, which counts as
    its first line, as in CPython. is_cut: the table goes on behind its last byte.
    """
    if offset < 0:
        return first_line
    line = _FORMATS[line_format](table[:TABLE_BYTES_MAX], first_line, offset, is_cut or len(table) > TABLE_BYTES_MAX)
    return line if line is not None and 0 <= line <= LINE_MAX else None


def _by_increments(table: bytes, first_line: int, offset: int, is_cut: bool) -> int | None:
    """Before: first line 7, table 06 01 08 ff. After: 7 up to byte 5, 8 up to byte 13, and then 7 to the end of the code."""
    line, start = first_line, 0
    for at in range(0, len(table) - 1, 2):
        start += table[at]
        if start > offset:
            return line
        line += _signed(table[at + 1])
    return None if is_cut else line


def _by_ranges(table: bytes, first_line: int, offset: int, _is_cut: bool) -> int | None:
    """Before: first line 7, table 06 00 08 01 02 80. After: 7 up to byte 5, 8 up to byte 13, and no line up to byte 15."""
    line, end = first_line, 0
    for at in range(0, len(table) - 1, 2):
        end += table[at]
        has_line = table[at + 1] != 0x80
        line += _signed(table[at + 1]) if has_line else 0
        if offset < end:
            return line if has_line else None
    return None


def _by_locations(table: bytes, first_line: int, offset: int, _is_cut: bool) -> int | None:
    """Before: first line 7, table d9 04 08, 81 00, fb. After: 8 up to byte 3, 8 up to byte 7, and no line up to byte 15."""
    line, end, at, size = first_line, 0, 0, len(table)
    while at < size:
        first = table[at]
        if not first & _ENTRY:
            return None
        kind = first >> 3 & 15
        end += 2 * ((first & 7) + 1)
        if kind > _SAME_LINE:
            change = _line_change(table, at + 1, kind)
            if change is None:
                return None
            line += change
        if offset < end:
            return None if kind == _NO_LOCATION else line
        at += 1
        while at < size and not table[at] & _ENTRY:
            at += 1
    return None


def _line_change(table: bytes, at: int, kind: int) -> int | None:
    """How many lines later an entry is than the one before. at: of its second byte."""
    if kind in (_ONE_LINE_LATER, _TWO_LINES_LATER):
        return kind - _SAME_LINE
    if kind == _NO_LOCATION:
        return 0
    number = 0
    for place, byte in enumerate(table[at : at + _CHUNKS_MAX]):
        number |= (byte & 0x3F) << 6 * place
        if not byte & 0x40:
            return -(number >> 1) if number & 1 else number >> 1
    return None


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


_FORMATS: Final[Mapping[LineFormat, Callable[[bytes, int, int, bool], int | None]]] = {
    LineFormat.INCREMENTS: _by_increments,
    LineFormat.RANGES: _by_ranges,
    LineFormat.LOCATIONS: _by_locations,
}
