"""What statements may read: the views of a history, or the table of rows that several nodes have sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from exporter.investigate.schema import VIEW_OF


class Readable(NamedTuple):
    """kind: what a table of it is called. columns_of: by name of the table. remedy: where to find the right name."""

    kind: str
    columns_of: Mapping[str, Sequence[str]]
    remedy: str


VIEWS_ONLY: Final = Readable(
    "view",
    {name: tuple(column.name for column in view.columns) for name, view in VIEW_OF.items()},
    "see `gpu-stall-exporter query --schema`",
)
