"""The windows of one interval as a compressed JSON document and back. What is unpacked may have been made by another program."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from exporter.history.window import StackOf, Window, no_stacks
from exporter.text import untrusted

UNPACKED_BYTES_MAX: Final = 4 << 20
_VALUES_MAX: Final = 600_000
"""256 processes with nine operations each and 250 buckets in each histogram."""
_SMALL_BYTES: Final = 64 << 10
"""A document that needs no check before it is decoded, which takes as long as decoding it: it holds fewer values than bytes."""


def packed(windows: Iterable[Window]) -> bytes:
    """Compressed JSON."""
    return packed_documents([window.to_document() for window in windows])


def packed_documents(documents: Sequence[Any]) -> bytes:
    """The inverse of unpacked_documents()."""
    return zlib.compress(json.dumps(documents, separators=(",", ":")).encode())


def unpacked(blob: Any, began_unix_ns: int, ended_unix_ns: int, stack_of: StackOf = no_stacks) -> list[Window]:
    """The inverse of packed(). stack_of: for numbers of stacks. Raises ValueError for other data."""
    return [Window.from_document(one, began_unix_ns, ended_unix_ns, stack_of) for one in unpacked_documents(blob)]


def unpacked_documents(blob: Any) -> Sequence[Any]:
    """A document for each window, not checked: Window.to_document() says what each holds. Raises ValueError for other data."""
    if not isinstance(blob, bytes):
        raise untrusted.Untrusted("the windows of an interval are not compressed")
    raw = decompressed(blob, UNPACKED_BYTES_MAX)
    if len(raw) <= _SMALL_BYTES:
        return untrusted.sequence(untrusted.small_json_value(raw))
    return untrusted.sequence(untrusted.json_value(raw, UNPACKED_BYTES_MAX, _VALUES_MAX))


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
