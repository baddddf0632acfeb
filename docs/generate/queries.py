"""Parts of docs/query.md, from the views, the named queries and the guard."""

from __future__ import annotations

from collections.abc import Iterator

from docs.generate.markdown import code, table
from exporter.investigate.guard import FUNCTIONS
from exporter.investigate.named import QUERIES
from exporter.investigate.schema import VIEWS


def queries() -> str:
    """Names and purposes, then the text of each."""
    return "\n\n".join(_query_parts())


def _query_parts() -> Iterator[str]:
    yield table(("name", "answers", "resolution"), ((f"`{q.name}`", q.purpose, q.resolution) for q in QUERIES))
    for query in QUERIES:
        yield f"```sql\n-- {query.name}\n{query.statement}\n```"


def views() -> str:
    """A table for each view."""
    return "\n\n".join(_view_parts())


def _view_parts() -> Iterator[str]:
    for view in VIEWS:
        yield f"### {view.name}"
        yield f"{view.purpose[0].upper()}{view.purpose[1:]}."
        yield table(("column", "type", "meaning"), ((f"`{one.name}`", one.kind, one.meaning) for one in view.columns))


def functions() -> str:
    """Sorted by name."""
    return f"{code(sorted(FUNCTIONS))}."
