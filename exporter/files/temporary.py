"""Temporary files and folders, or one line where no folder for them can be written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

REMEDY: Final = "set TMPDIR to a folder that can be written"


class NoFolder(Exception):
    """No folder for temporary files can be written."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Removed after the block. Raises NoFolder."""
    try:
        made = tempfile.TemporaryDirectory(prefix="gpu-stall-exporter-")
    except OSError as error:
        raise _no_folder(error) from None
    with made as folder:
        yield Path(folder)


@contextmanager
def temporary_file() -> Iterator[IO[bytes]]:
    """Removed after the block. Raises NoFolder."""
    try:
        made = tempfile.TemporaryFile()  # noqa: SIM115 - entered below
    except OSError as error:
        raise _no_folder(error) from None
    with made as file:
        yield file


def _no_folder(error: OSError) -> NoFolder:
    return NoFolder(f"no folder for temporary files: {error.strerror}")
