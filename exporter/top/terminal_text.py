"""Text on a terminal: characters that its encoding has, and its width in columns. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final, NamedTuple

from exporter.model import Identity
from exporter.text import figures
from exporter.text.printable import printable
from exporter.units import NANOSECONDS


class Glyphs(NamedTuple):
    """Characters beyond letters. shades: of the parts of a bar, the largest part's first. sliver: a part too small for one.

    nothing: an unknown figure.
    """

    shades: str
    track: str
    sliver: str
    ellipsis: str
    nothing: str
    micro: str
    dot: str
    leads_to: str


UNICODE: Final = Glyphs("█▓▒░", "·", "▏", "…", "—", "µ", "·", "→")
ASCII: Final = Glyphs("#=+-", ".", "|", "~", "-", "u", "|", "->")


def glyphs_for(encoding: str) -> Glyphs:
    """The glyphs that an encoding has."""
    try:
        "".join(UNICODE).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def encodable(text: str, encoding: str) -> str:
    """`text` without control characters, which become U+FFFD; characters that the encoding lacks become `?`."""
    safe = printable(text)
    return safe if safe.isascii() else safe.encode(encoding, "replace").decode(encoding)


def width_of(text: str) -> int:
    """Columns on a terminal: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fitted(text: str, columns: int, glyphs: Glyphs) -> str:
    """`text`, cut with an ellipsis to at most so many columns."""
    if width_of(text) <= columns:
        return text
    taken, kept = 0, []
    for character in text:
        taken += _columns(character)
        if taken > columns - 1:
            break
        kept.append(character)
    return "".join(kept) + glyphs.ellipsis if columns > 0 else ""


def duration(length_seconds: float | None, glyphs: Glyphs) -> str:
    return glyphs.nothing if length_seconds is None else figures.compact_duration(length_seconds, glyphs.micro)


def share(part: float | None, glyphs: Glyphs) -> str:
    return glyphs.nothing if part is None else figures.percent(part, space="")


def time_of_day(unix_seconds: float) -> str:
    """The local time, without the date."""
    unix_ns = int(unix_seconds * NANOSECONDS)
    return figures.time_of_day(unix_ns, unix_ns, None, with_zone=False)


def name_of(identity: Identity, *, with_node: bool) -> str:
    """`rank 0 on gpu7, pod trainer-0`."""
    rank = f"rank {identity.rank}" if identity.rank else "a process without a rank"
    node = f" on {identity.node}" if identity.node and with_node else ""
    inside = (
        f", pod {identity.pod}" if identity.pod else f", container {identity.container}" if identity.container else ""
    )
    return f"{rank}{node}{inside}"
