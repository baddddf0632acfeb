"""The rows of a statement, kept encoded: decoded they take many times as much memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

from exporter.text import untrusted


class Result(NamedTuple):
    """lines: a row each, as a JSON array. is_complete: False: there are more rows than a result may have."""

    columns: tuple[str, ...]
    lines: Sequence[bytes]
    is_complete: bool = True

    @classmethod
    def of(cls, columns: Sequence[str], lines: Sequence[bytes], *, is_complete: bool = True) -> Self:
        """Names of columns are made printable and bounded."""
        return cls(tuple(map(untrusted.text, columns)), lines, is_complete)

    def rows(self) -> Iterator[list[Any]]:
        """Values are text, numbers and null; infinity is a number."""
        return map(json.loads, self.lines)
