"""The windows of one interval as a compressed JSON document and back. What is unpacked may have been made by another program."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any, Final

from exporter.history.window import Window
from exporter.text import untrusted

UNPACKED_BYTES_MAX: Final = 4 << 20
_VALUES_MAX: Final = 600_000
"""256 processes with nine operations each and 250 buckets in each histogram."""


def packed(windows: Iterable[Window]) -> bytes:
    """Compressed JSON."""
    documents = [window.to_document() for window in windows]
    return zlib.compress(json.dumps(documents, separators=(",", ":")).encode())


def unpacked(blob: Any, began_unix_ns: int, ended_unix_ns: int) -> list[Window]:
    """The inverse of packed(). Raises ValueError for other data."""
    if not isinstance(blob, bytes):
        raise untrusted.Untrusted("the windows of an interval are not compressed")
    documents = untrusted.json_value(decompressed(blob, UNPACKED_BYTES_MAX), UNPACKED_BYTES_MAX, _VALUES_MAX)
    return [Window.from_document(one, began_unix_ns, ended_unix_ns) for one in untrusted.sequence(documents)]


def decompressed(blob: bytes, bytes_max: int) -> bytes:
    """Never makes more than `bytes_max` bytes. Raises ValueError for a longer content and for anything that is not all of one."""
    decompressor = zlib.decompressobj()
    try:
        content = decompressor.decompress(blob, bytes_max)
    except zlib.error as error:
        raise untrusted.Untrusted(f"cannot be decompressed: {error}") from None
    if not decompressor.eof:
        raise untrusted.Untrusted(f"cut short, or more than {bytes_max} bytes when decompressed")
    return content
