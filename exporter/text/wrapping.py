"""Lines -> lines of a width, broken between words. A word that is longer stays whole: it may be a path or a command to copy."""

from __future__ import annotations

import textwrap


def words(text: str, width: int) -> list[str]:
    """The words of a text in lines."""
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)


def wrapped(line: str, columns: int | None, indent: int) -> list[str]:
    """One line, continued below with an indent. columns: None for lines of any length."""
    if columns is None or len(line) <= columns:
        return [line]
    first, *others = words(line[indent:], max(columns - indent, 1)) or [""]
    return [line[:indent] + first, *(" " * indent + other for other in others)]
