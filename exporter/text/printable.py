"""Text without control characters, newlines or lone surrogates: each becomes U+FFFD.

Names of programs, containers, files and variables are chosen by the processes that are watched. Whatever of them reaches a label,
a log line or a terminal comes through here.
"""

from __future__ import annotations

from typing import Final

_BYTES_PER_CHARACTER_MAX: Final = 4  # UTF-8


def printable(text: str) -> str:
    if text.isprintable():  # as nearly all text is, and a character at a time takes fourteen times as long
        return text
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def printable_bytes(raw: bytes, characters_max: int) -> str:
    """The first `characters_max` characters of UTF-8, printable; no more of it is decoded."""
    return printable(raw[: _BYTES_PER_CHARACTER_MAX * characters_max].decode("utf-8", "replace")[:characters_max])
