"""Fields of a protobuf message of unknown origin, as they stand in its bytes.

In: bytes. Out: numbers and values of fields, or Untrusted for what is no message. Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from exporter.text.untrusted import Untrusted

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BITS_MAX: Final = 64
_DOUBLE: Final = struct.Struct("<d").unpack
_LENGTH_OF: Final = {_FIXED64: 8, _FIXED32: 4}

WireValue = int | memoryview
"""A varint; else the bytes of a message, a text, or of a number of fixed length."""


def fields(raw: memoryview) -> Iterator[tuple[int, WireValue]]:
    """Number and value of each field, in order."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        kind = tag & 7
        value: WireValue
        if kind == _VARINT:
            value, at = _varint(raw, at)
        else:
            if kind == _BYTES:
                size_bytes, at = _varint(raw, at)
            elif kind in _LENGTH_OF:
                size_bytes = _LENGTH_OF[kind]
            else:
                raise Untrusted("a field of a type that there is none of")
            if size_bytes > len(raw) - at:
                raise Untrusted("a field ends behind its message")
            value = raw[at : at + size_bytes]
            at += size_bytes
        yield tag >> 3, value


def number(value: WireValue) -> int:
    if not isinstance(value, int):
        raise Untrusted("want a number, not bytes")
    return value


def message(value: WireValue) -> memoryview:
    """The bytes of a message or a text."""
    if isinstance(value, int):
        raise Untrusted("want bytes, not a number")
    return value


def double(value: WireValue) -> float:
    raw = message(value)
    if len(raw) != _LENGTH_OF[_FIXED64]:
        raise Untrusted("want eight bytes")
    (found,) = _DOUBLE(raw)
    return float(found)


def _varint(raw: memoryview, at: int) -> tuple[int, int]:
    """The number that begins there, and where it ends."""
    found = shift = 0
    while at < len(raw) and shift < _VARINT_BITS_MAX:
        byte = raw[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, at
        shift += 7
    raise Untrusted("a number does not end")
