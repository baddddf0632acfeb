"""A result as a table for people, or as CSV, a JSON array or lines of JSON for programs: pieces of text."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from exporter.errors import BadInput
from exporter.investigate.result import Result
from exporter.text.printable import printable

_LARGE: Final = 1e6
"""A larger number has all digits before the point: a time of day would lose its seconds."""


def _table(result: Result) -> Iterator[str]:
    """Text is aligned left, numbers right. Cells stay whole."""
    widths = [len(name) for name in result.columns]
    is_text = [False] * len(widths)
    for row in result.rows():
        for at, value in enumerate(row):
            widths[at] = max(widths[at], len(_cell(value)))
            is_text[at] |= isinstance(value, str)
    yield _line(result.columns, widths, is_text)
    for row in result.rows():
        yield _line([_cell(value) for value in row], widths, is_text)


def _line(cells: Any, widths: list[int], is_text: list[bool]) -> str:
    aligned = (
        cell.ljust(width) if left else cell.rjust(width)
        for cell, width, left in zip(cells, widths, is_text, strict=True)
    )
    return f"{'  '.join(aligned).rstrip()}\n"


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:.3f}" if _LARGE <= abs(value) < math.inf else f"{value:.6g}"
        case _:
            return printable(str(value))


def _csv(result: Result) -> Iterator[str]:
    """As RFC 4180 has it, with line feeds; null is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.rows():
        writer.writerow([printable(value) if isinstance(value, str) else value for value in row])
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def _json(result: Result, more: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """An array with an object in each line."""
    separator = "[\n"
    for line in _objects(result, more):
        yield separator + line
        separator = ",\n"
    yield "\n]\n" if result.lines or more else "[]\n"


def _json_lines(result: Result, more: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    yield from (f"{line}\n" for line in _objects(result, more))


def _objects(result: Result, more: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """more: objects after those of the rows.

    Characters beyond ASCII are escaped, also those that a terminal acts on. Infinity, which JSON lacks, is null.
    """
    if len(set(result.columns)) < len(result.columns):
        raise BadInput("two columns have one name, and JSON needs a name for each", remedy="name them with AS")
    for row in result.rows():
        values = (None if isinstance(value, float) and math.isinf(value) else value for value in row)
        yield json.dumps(dict(zip(result.columns, values, strict=True)))
    yield from map(json.dumps, more)


OBJECT_FORMATS: Final = {"json": _json, "jsonl": _json_lines}
"""Those in which a row is an object. They take objects that are no rows, too."""
FORMATS: Final[Mapping[str, Callable[[Result], Iterator[str]]]] = {"table": _table, "csv": _csv, **OBJECT_FORMATS}
"""Name of a format -> pieces of text."""
