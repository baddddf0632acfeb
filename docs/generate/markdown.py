"""Pieces of Markdown that several generated pages use."""

from __future__ import annotations

from collections.abc import Iterable

GENERATED = "<!-- Made by `make golden` from the code; edit docs/generate/ instead. -->"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def code(words: Iterable[str]) -> str:
    """`a`, `b`."""
    return ", ".join(f"`{word}`" for word in words)
