"""The beginning of each line of evidence that is about NCCL's RAS: it distinguishes them from stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_BEGINNING: Final = "NCCL RAS: "


def line(text: str) -> str:
    """A line of evidence."""
    return _BEGINNING + text


def is_of_ras(evidence: Sequence[str]) -> bool:
    """Whether evidence of a chain is what RAS has answered."""
    return bool(evidence) and evidence[0].startswith(_BEGINNING)
