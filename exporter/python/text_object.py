"""Names in the memory of an interpreter: str objects of every kind, cut to what is shown.

In: the address of an object. Out: its text, printable, and the bytes that it was made of; None for what is no compact str.
Source: PyASCIIObject, PyCompactUnicodeObject in Include/cpython/unicodeobject.h of each version.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from exporter.errors import NotReadable
from exporter.python.layout import CodeLayout
from exporter.python.memory import BoundedMemory
from exporter.text.printable import printable

CHARACTERS_MAX: Final = 1024
CUT: Final = "…"
_LENGTH_MAX: Final = 1 << 32
_AT_ONCE: Final = 256
"""Bytes of the first read: most names end within."""
_CODECS: Final = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_STATE_SHIFTS: Final = (2, 8, 16)
"""Where `kind` begins in the state: behind two bits until 3.13, two bytes since 3.14, a byte in some free-threaded builds.
Before it is `interned`, at most 3, and `kind` is never 0, so that only one of them fits. Bits behind may have any value."""
_INTERNED_MAX: Final = 3


class TextObject(NamedTuple):
    """content: the size of a character, the length, and the characters that are shown, as they are in memory."""

    text: str
    content: bytes


def text_object(
    memory: BoundedMemory, layout: CodeLayout, address: int, *, keep_end: bool = False
) -> TextObject | None:
    """keep_end: of a text that is too long the end is shown, as of a path. Raises NotReadable."""
    head = memory.up_to(address, _AT_ONCE)
    if len(head) < layout.text_ascii:
        raise NotReadable(f"the text at {address:#x} is cut")
    length = int.from_bytes(head[layout.text_length : layout.text_length + 8], "little")
    kind, is_ascii = _kind(int.from_bytes(head[layout.text_state : layout.text_state + 4], "little"))
    if not kind or length > _LENGTH_MAX:
        return None
    begin = layout.text_ascii if is_ascii else layout.text_other
    is_cut = length > CHARACTERS_MAX
    count = CHARACTERS_MAX - len(CUT) if is_cut else length
    start = begin + (length - count if is_cut and keep_end else 0) * kind
    end = start + count * kind
    characters = head[start:end] if end <= len(head) else memory.content(address + start, end - start)
    text = printable(characters.decode(_CODECS[kind], "replace"))
    if is_cut:
        text = CUT + text if keep_end else text + CUT
    return TextObject(text, bytes([kind]) + length.to_bytes(8, "little") + characters)


def _kind(state: int) -> tuple[int, bool]:
    """Bytes of a character, 0 if the state is not that of a compact text; and whether all characters are ASCII."""
    for shift in _STATE_SHIFTS:
        kind, is_compact, is_ascii = state >> shift & 7, state >> shift + 3 & 1, state >> shift + 4 & 1
        is_state = state & (1 << shift) - 1 <= _INTERNED_MAX and not (is_ascii and kind != 1)
        if is_state and is_compact and kind in _CODECS:
            return kind, bool(is_ascii)
    return 0, False
