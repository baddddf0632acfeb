"""Parts of documents that are made from the code, between two comments: `<!-- NAME: begin, … -->` and `<!-- NAME: end -->`."""

from __future__ import annotations

from docs.generate.markdown import table
from exporter.host.privileges import NEEDS


def renewed(text: str, name: str, part: str) -> str:
    """text with a part replaced. Raises ValueError if a comment is missing."""
    begin, end = f"<!-- {name}: begin, made by `make golden` -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"


def capabilities() -> str:
    """The table of docs/security.md."""
    rows = ((f"`{need.capability.label}`", need.reason, need.cost) for need in NEEDS)
    return table(("capability", "purpose", "without it"), rows)
