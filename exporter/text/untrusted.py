"""Values that were decoded from a file or a response of unknown origin: checked, printable and bounded.

In: bytes, or values as a decoder returns them. Out: values of the wanted type, or Untrusted. Text is made printable here, where
it is decoded, so that no output can forget it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from exporter.text.printable import printable

NAME_CHARACTERS: Final = 128
"""Limit of a name, an id or a label."""
LINE_CHARACTERS: Final = 1024
"""Limit of a sentence, a path or a command."""
COUNT_MAX: Final = (1 << 64) - 1
NUMBER_MAX: Final = 1e18
DEPTH_MAX: Final = 16
"""Objects and arrays within each other."""
VALUES_MAX: Final = 400_000
"""Limit of one JSON document. A value takes up to 80 bytes of memory."""

_CUT: Final = "…"
# One that is not closed reaches to the end: otherwise each quote in it would be tried as its beginning.
_STRINGS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS: Final = b"[]{}"
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class Untrusted(ValueError):
    """A value is not what it should be: of another type, beyond its bounds, or not JSON."""


def json_value(raw: bytes | str, bytes_max: int, values_max: int = VALUES_MAX, depth_max: int = DEPTH_MAX) -> Any:
    """The only value of a JSON document of bounded size, depth and number of values. NaN and infinity are no JSON."""
    encoded = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    if len(encoded) > bytes_max:
        raise Untrusted(f"JSON of more than {bytes_max} bytes")
    without_strings = _STRINGS.sub(b"", encoded)
    if sum(without_strings.count(mark) for mark in b",[{:") > values_max:
        raise Untrusted(f"JSON of more than {values_max} values")
    brackets = without_strings.translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > depth_max:
        raise Untrusted(f"JSON with more than {depth_max} levels")
    return small_json_value(encoded)


def small_json_value(raw: bytes) -> Any:
    """The same of a document that is small enough to be decoded whatever it holds, with as many levels as Python decodes."""
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Untrusted(f"not JSON: {printable(str(error)[:NAME_CHARACTERS])}") from None


def _refuse_constant(name: str) -> Any:
    raise Untrusted(f"{name} is not a number")


def text(value: Any, characters_max: int = NAME_CHARACTERS) -> str:
    """Printable; the end of a longer one is replaced by `…`."""
    if not isinstance(value, str):
        raise Untrusted(f"want text, not {_kind(value)}")
    if len(value) > characters_max:
        value = value[: characters_max - len(_CUT)] + _CUT
    return printable(value)


def word(value: Any) -> str:
    """A text that is compared and not shown. Raises Untrusted for a long one."""
    if not isinstance(value, str) or len(value) > NAME_CHARACTERS:
        raise Untrusted(f"want a word, not {_kind(value)}")
    return value


def count(value: Any, most: int = COUNT_MAX) -> int:
    """A whole number from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise Untrusted(f"want a whole number from 0 to {most}, not {_kind(value)}")
    return value


def integer(value: Any) -> int:
    """A whole number within ±COUNT_MAX."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > COUNT_MAX:
        raise Untrusted(f"want a whole number, not {_kind(value)}")
    return value


def counts(value: Any, most: int) -> tuple[int, ...]:
    """At most so many whole numbers from 0 on."""
    found = sequence(value, most)
    if any(type(one) is not int for one in found) or (found and not 0 <= min(found) <= max(found) <= COUNT_MAX):
        raise Untrusted("want whole numbers from 0 on")
    return tuple(found)


def number(value: Any) -> float:
    """A finite number within ±NUMBER_MAX."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= NUMBER_MAX:
        raise Untrusted(f"want a number, not {_kind(value)}")
    return float(value)


def amounts(values: Collection[Any]) -> list[float]:
    """Finite numbers from 0 to NUMBER_MAX."""
    if any(type(one) not in (float, int) for one in values) or not all(0 <= one <= NUMBER_MAX for one in values):
        raise Untrusted("want numbers from 0 on")
    return [float(one) for one in values]


def finite(value: float) -> float:
    """The number itself, 0 for infinity and NaN, and the bound for what lies beyond it."""
    return min(max(value, -NUMBER_MAX), NUMBER_MAX) if math.isfinite(value) else 0.0


def switch(value: Any) -> bool:
    """True or false, which SQLite stores as 1 or 0."""
    if value not in (True, False) or not isinstance(value, int):
        raise Untrusted(f"want true or false, not {_kind(value)}")
    return bool(value)


def mapping(value: Any, most: int = VALUES_MAX) -> Mapping[str, Any]:
    """An object with at most so many members."""
    if not isinstance(value, dict) or len(value) > most:
        raise Untrusted(f"want an object of at most {most} members, not {_kind(value)}")
    return value


def sequence(value: Any, most: int = VALUES_MAX, length: int | None = None) -> Sequence[Any]:
    """An array of at most so many values. length: of exactly so many."""
    if not isinstance(value, list | tuple) or len(value) > most or length not in (None, len(value)):
        wanted = f"at most {most}" if length is None else str(length)
        raise Untrusted(f"want an array of {wanted} values, not {_kind(value)}")
    return value


def member(values: Mapping[str, Any], name: str) -> Any:
    """A member that must be there."""
    try:
        return values[name]
    except KeyError:
        raise Untrusted(f"{name} is missing") from None


def _kind(value: Any) -> str:
    """What a value is, without its content."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return str(value) if abs(value) <= COUNT_MAX else "a huge number"
    if isinstance(value, float):
        return f"{value:g}"
    kinds = {str: "text", bytes: "bytes", dict: "an object", list: "an array", tuple: "an array"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "another type")
