"""What may be shown of bytes that a stranger chose? In: bytes of any kind. Out: text without control characters."""

from __future__ import annotations

from typing import Final

_BYTES_PER_CHARACTER_MAX: Final = 4  # UTF-8


def printable(text: bytes, characters_max: int) -> str:
    """`text` without control characters, newlines or half characters: each becomes U+FFFD; cut at `characters_max`."""
    decoded = text[: _BYTES_PER_CHARACTER_MAX * characters_max].decode("utf-8", "replace")[:characters_max]
    if decoded.isprintable():  # as nearly all text is, and a character at a time takes fourteen times as long
        return decoded
    return "".join(c if c.isprintable() else "\ufffd" for c in decoded)
