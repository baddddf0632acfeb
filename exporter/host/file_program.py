"""Reads small files that may lie where nothing answers. A program of its own, started by patient_files.py."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import Any

from exporter.files import content
from exporter.host.answering import answer_requests


def read(request: Any, _descriptors: Sequence[int]) -> tuple[Any, Sequence[int]]:
    """request: [path, most bytes]. The content, a character for each byte; or {"error": why not}."""
    path, limit_bytes = request
    try:
        return content.read(path, limit_bytes, follow_links=True).decode("latin-1"), ()
    except OSError as error:
        return {"error": error.strerror or str(error)}, ()
    except ValueError as error:  # a zero byte in the path
        return {"error": str(error)}, ()


def main() -> None:
    answer_requests(socket.socket(fileno=int(sys.argv[2])), read)
