"""Columns within the width of a terminal. Pure.

In: Columns of cells. Out: Lines of StyledText, none wider than the width. Columns that do not fit are left out, the least
important first.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final, NamedTuple

from exporter.top.terminal_text import Glyphs, fitted, width_of

GAP: Final = 2


class Style(enum.Enum):
    """The meaning of a piece of text; a terminal maps it to attributes, and plain text ignores it."""

    PLAIN = enum.auto()
    DIM = enum.auto()
    BOLD = enum.auto()
    TITLE = enum.auto()
    HEADING = enum.auto()
    SELECTED = enum.auto()
    WARNING = enum.auto()
    LOW = enum.auto()
    MEDIUM = enum.auto()
    HIGH = enum.auto()
    CRITICAL = enum.auto()
    CAUSE_1 = enum.auto()
    CAUSE_2 = enum.auto()
    CAUSE_3 = enum.auto()
    CAUSE_4 = enum.auto()


class StyledText(NamedTuple):
    """A piece of a line."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[StyledText, ...]


class Column(NamedTuple):
    """cells: one for each row. importance: columns with less are left out first. is_number: right-aligned."""

    title: str
    cells: Sequence[StyledText]
    importance: int
    is_number: bool = False
    columns_max: int = 1 << 30

    @property
    def columns(self) -> int:
        """The width of its widest cell."""
        return min(max(map(width_of, (self.title, *(cell.text for cell in self.cells)))), self.columns_max)


class Rest(NamedTuple):
    """The content of the width that columns leave. heading, cells: for a number of columns. columns_min: always kept free;
    columns_wanted: kept free by leaving out columns that are not more important than `spared`.
    """

    heading: Callable[[int], str]
    cells: Callable[[int], Sequence[Line]]
    columns_min: int
    columns_wanted: int
    spared: int


def text_of(line: Line) -> str:
    """The text without styles."""
    return "".join(span.text for span in line)


def clipped(line: Line, columns: int, glyphs: Glyphs) -> Line:
    """The line, cut to so many columns."""
    kept: list[StyledText] = []
    left = columns
    for span in line:
        kept.append(StyledText(fitted(span.text, left, glyphs), span.style))
        left -= width_of(span.text)
        if left < 0:
            break
    return tuple(kept)


def padded(line: Line, columns: int, style: Style) -> Line:
    """The line, filled with blanks of a style."""
    missing = columns - width_of(text_of(line))
    return (*line, StyledText(" " * missing, style)) if missing > 0 else line


def restyled(line: Line, style: Style) -> Line:
    """The line in one style."""
    return (StyledText(text_of(line), style),)


def table(columns: Iterable[Column], width: int, glyphs: Glyphs, rest: Rest | None = None) -> tuple[Line, ...]:
    """A heading and the rows, each at most `width` wide."""
    kept = list(columns)
    while len(kept) > 1:
        least = min(kept, key=lambda column: column.importance)
        needed = 0
        if rest:
            needed = GAP + (rest.columns_wanted if least.importance <= rest.spared else rest.columns_min)
        if _columns_of(kept) + needed <= width:
            break
        kept.remove(least)
    left = width - _columns_of(kept) - GAP
    rows = range(max((len(column.cells) for column in kept), default=0))
    heading = [StyledText(_aligned(column.title, column, glyphs), Style.HEADING) for column in kept]
    lines = [[StyledText(_aligned(c.cells[row].text, c, glyphs), c.cells[row].style) for c in kept] for row in rows]
    behind: Sequence[Line] = rest.cells(left) if rest and left > 0 else [() for _ in rows]
    title = (StyledText(rest.heading(left), Style.HEADING),) if rest and left > 0 else ()
    made = [(*_spaced(line), *_behind(more)) for line, more in zip([heading, *lines], [title, *behind], strict=True)]
    return tuple(clipped(line, width, glyphs) for line in made)


def _columns_of(columns: Sequence[Column]) -> int:
    return sum(column.columns + GAP for column in columns) - GAP


def _aligned(text: str, column: Column, glyphs: Glyphs) -> str:
    cut = fitted(text, column.columns, glyphs)
    blanks = " " * (column.columns - width_of(cut))
    return blanks + cut if column.is_number else cut + blanks


def _spaced(spans: Sequence[StyledText]) -> Line:
    found: list[StyledText] = []
    for number, span in zip(count(), spans):
        found += [StyledText(" " * GAP), span] if number else [span]
    return tuple(found)


def _behind(line: Line) -> Line:
    return (StyledText(" " * GAP), *line) if line else ()
