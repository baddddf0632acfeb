"""The table of docs/serve.md, from the tools."""

from __future__ import annotations

from docs.generate.markdown import table
from exporter.serve.tools.registry import TOOLS


def tools() -> str:
    rows = ((f"`{one.name}`", one.purpose, ", ".join(f"`{each.name}`" for each in one.parameters)) for one in TOOLS)
    return table(("tool", "answers", "arguments"), rows)
