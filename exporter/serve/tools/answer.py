"""The answer of a tool, within a bounded size: facts, and one list that may be too long to be given at once.

The same document is given to a program as JSON and to a person or a model as text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

ANSWER_BYTES_MAX: Final = 8 << 10
"""Limit of the JSON document. A model pays for each answer; `next` has the call for the rest."""

_LINE_CHARACTERS: Final = 600
_RESERVE_BYTES: Final = 1 << 10  # for what is added to say that there is more
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/+%-]{1,64}")


class NextCall(NamedTuple):
    """The call that is usually made next."""

    tool: str
    arguments: Mapping[str, Any]


class ToolAnswer(NamedTuple):
    """facts: given in any case. listed: name of the list. items: all of it. next_call: None: nothing is left to ask."""

    facts: Mapping[str, Any]
    listed: str
    items: Sequence[Mapping[str, Any]]
    next_call: NextCall | None = None


def bounded(answer: ToolAnswer, asked: NextCall, offset: int) -> dict[str, Any]:
    """The document: as many items from `offset` on as there is room for. asked: the call that is answered.

    `truncated` says whether there are more items, and then `next` is the call that gives them.
    """
    items: list[Any] = []
    document = {**_cut(answer.facts), answer.listed: items, "truncated": False, "next": None}
    left_bytes = ANSWER_BYTES_MAX - _RESERVE_BYTES - len(encoded(document))
    for one in answer.items[offset:]:
        item = _cut(one)
        size_bytes = len(encoded(item)) + 2
        if size_bytes > left_bytes and items:
            break
        if size_bytes > left_bytes:  # the first item alone is too long
            item = _shortened(item, left_bytes)
            size_bytes = len(encoded(item)) + 2
        items.append(item)
        left_bytes -= size_bytes
    document["truncated"] = offset + len(items) < len(answer.items)
    following = answer.next_call
    if document["truncated"]:
        following = NextCall(asked.tool, {**asked.arguments, "offset": offset + len(items)})
    document["next"] = following._asdict() if following else None
    return document


def encoded(document: Any) -> bytes:
    """As JSON, in which infinity is null."""
    return json.dumps(_finite(document), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def text_of(document: Mapping[str, Any]) -> str:
    """All of the document as lines `name: value`. Text that was not made by this program is quoted."""
    return "\n".join(_lines(document, ""))


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, one in value.items():
        yield from _field(name, one, indent)


def _field(name: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{indent}{name}:"
        yield from _lines(value, f"{indent}  ")
    elif isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value):
        yield f"{indent}{name}:"
        for one in value:
            fields = one if isinstance(one, Mapping) else {"values": one}
            for number, line in enumerate(_lines(fields, f"{indent}  ")):
                yield line if number else f"{indent}- {line.removeprefix(f'{indent}  ')}"
    elif isinstance(value, list):
        yield f"{indent}{name}: [{', '.join(map(_scalar, value))}]"
    else:
        yield f"{indent}{name}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.3f}"
        case str() if not _PLAIN.fullmatch(value):
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return "{}"
    return str(value)


def _cut(value: Any) -> Any:
    """Lines of bounded length."""
    match value:
        case str() if len(value) > _LINE_CHARACTERS:
            return value[: _LINE_CHARACTERS - 1] + "…"
        case Mapping():
            return {name: _cut(one) for name, one in value.items()}
        case list() | tuple():
            return [_cut(one) for one in value]
    return value


def _shortened(item: dict[str, Any], left_bytes: int) -> dict[str, Any]:
    """An item without the last parts of its longest lists and texts, so that it fits."""
    found = dict(item)
    while len(encoded(found)) + 2 > left_bytes:
        name = max(found, key=lambda one: len(encoded(found[one])))
        value = found[name]
        if isinstance(value, list) and len(value) > 1:
            found[name] = value[: len(value) // 2]
        elif isinstance(value, str) and len(value) > 16:
            found[name] = value[: len(value) // 2] + "…"
        else:
            del found[name]
    return found


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
    return value
