"""How is a figure or a name written, so that it is short, aligned and nothing but text? Pure.

In: seconds, shares, rates, Identities. Out: text without control characters. Glyphs decide between Unicode and ASCII.
"""

from __future__ import annotations

import time
import unicodedata
from typing import Final, NamedTuple

from exporter.model import Identity
from exporter.text.printable import printable


class Glyphs(NamedTuple):
    """The characters that are more than letters. shades: of a bar's parts, the largest part's first. sliver: too small a part."""

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
    """What a terminal or file of this encoding can show."""
    try:
        "".join(UNICODE).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def shown(text: str, encoding: str) -> str:
    """`text` as it may reach a terminal: control characters become U+FFFD, what the encoding has not becomes `?`."""
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


def time_of_day(unix_seconds: float) -> str:
    """On this machine."""
    return time.strftime("%H:%M:%S", time.localtime(unix_seconds))


def duration(length_seconds: float | None, glyphs: Glyphs) -> str:
    """`850ns`, `2.17µs`, `13.1ms`, `1.24s`, `2m03s`, `1h02m`: three digits, no blanks."""
    if length_seconds is None:
        return glyphs.nothing
    if length_seconds == float("inf"):
        return ">68m"  # beyond the last edge of the kernel's buckets, 4,096 s
    if length_seconds <= 0:
        return "0s"
    for unit, of_seconds in (("ns", 1e-9), (f"{glyphs.micro}s", 1e-6), ("ms", 1e-3), ("s", 1.0)):
        value = length_seconds / of_seconds
        if value < (59.95 if unit == "s" else 999.5):
            return f"{_three_digits(value)}{unit}"
    whole_seconds = round(length_seconds)
    if whole_seconds < 3600:
        return f"{whole_seconds // 60}m{whole_seconds % 60:02}s"
    return f"{whole_seconds // 3600}h{whole_seconds % 3600 // 60:02}m"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def share(part: float | None, glyphs: Glyphs) -> str:
    """`46%`, `2.1%`, `<0.1%`, `0%`."""
    if part is None:
        return glyphs.nothing
    if part <= 0:
        return "0%"
    if part < 0.0005:
        return "<0.1%"
    return f"{part:.1%}" if part < 0.0995 else f"{part:.0%}"


def rate(per_second: float) -> str:
    """`0.97`, `53.1`, `480`, `8.50k`, `1.20M`."""
    for unit, of in (("", 1.0), ("k", 1e3), ("M", 1e6)):
        if per_second / of < 999.5:
            return "0" if per_second == 0 else f"{_three_digits(per_second / of)}{unit}"
    return f"{per_second / 1e9:.3g}G"


def name_of(identity: Identity, *, with_node: bool) -> str:
    """`rank 0 on gpu7, pod trainer-0`: what is known of it."""
    rank = f"rank {identity.rank}" if identity.rank else "a process without a rank"
    where = f" on {identity.node}" if identity.node and with_node else ""
    inside = (
        f", pod {identity.pod}" if identity.pod else f", container {identity.container}" if identity.container else ""
    )
    return f"{rank}{where}{inside}"
