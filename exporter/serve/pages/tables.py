"""Tables of a page: each with a caption and headings that a screen reader reads with a cell; long ones fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from exporter.serve.pages.markup import Child, Markup, element

ROWS_MAX: Final = 32
"""Rows that are seen at once; further ones are folded."""
FOLDED_MAX: Final = 512
"""Rows in a page. A node has 256 ranks."""


NONE: Final = "-"
"""A cell without a value: not measured, or nothing of the kind. The section of what is not measured has the reason."""


class TableColumn(NamedTuple):
    """is_number: aligned right. hint: more about it, for a tooltip."""

    name: str
    is_number: bool = False
    hint: str = ""


def table(caption: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[Child]], empty: str = "") -> Markup:
    """The first cell of a row is its heading. empty: a sentence where there are no rows."""
    if not rows:
        return element("p", empty or "Nothing in this time span.", class_="empty")
    shown = [_table(caption, columns, rows[:ROWS_MAX])]
    if more := rows[ROWS_MAX:FOLDED_MAX]:
        name = f"{caption}, {len(more)} more"
        shown.append(element("details", element("summary", f"{len(more)} more"), _table(name, columns, more)))
    if len(rows) > FOLDED_MAX:
        shown.append(element("p", f"{len(rows) - FOLDED_MAX} further ones are left out: choose a smaller time span."))
    return Markup("".join(shown))


def _table(caption: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[Child]]) -> Markup:
    heads = [
        element("th", one.name, scope="col", class_="number" if one.is_number else None, title=one.hint or None)
        for one in columns
    ]
    parts = (
        element("caption", caption),
        element("thead", element("tr", heads)),
        element("tbody", [_row(columns, row) for row in rows]),
    )
    # Scrolled with the keyboard, too.
    return element("div", element("table", parts), class_="scroll", tabindex=0, role="region", aria_label=caption)


def _row(columns: Sequence[TableColumn], row: Sequence[Child]) -> Markup:
    first, *others = row
    cells = [
        element("td", cell, class_="number" if column.is_number else None)
        for column, cell in zip(columns[1:], others, strict=True)
    ]
    return element("tr", element("th", first, scope="row"), cells)


def facts(pairs: Sequence[tuple[str, Child]]) -> Markup:
    """Names and values; those without a value are left out."""
    known = [
        element("div", element("dt", name), element("dd", value)) for name, value in pairs if value not in ("", None)
    ]
    return element("dl", known, class_="facts")
