"""A timeline as a file, replaced at once: a viewer never reads half of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from exporter.errors import BadInput
from exporter.files import content
from exporter.text.printable import printable
from exporter.units import spoken_bytes

_MODE: Final = 0o640  # as the history and recordings have: names of files and programs are in it


def write_timeline(path: Path, pieces: Iterable[bytes]) -> str:
    """What was written where. Raises BadInput for a path that cannot be written."""
    size_bytes = 0

    def counted() -> Iterator[bytes]:
        nonlocal size_bytes
        for piece in pieces:
            size_bytes += len(piece)
            yield piece

    try:
        content.replace(path, counted(), _MODE)
    except OSError as error:
        raise BadInput(f"--output: cannot write {path}: {error.strerror or error}") from None
    return f"wrote {printable(str(path))}, {spoken_bytes(size_bytes)}"
