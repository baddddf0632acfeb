"""What a tool may be given: checked values by name, and the same as JSON Schema."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from exporter.errors import BadInput, UnknownInput
from exporter.text.printable import printable

TEXT_CHARACTERS_MAX: Final = 10_000
_TYPES: Final[Mapping[type, str]] = {str: "string", int: "integer"}
_SHOWN_CHARACTERS: Final = 40


class Parameter(NamedTuple):
    """kind: str or int. default: None if it must be given. choices: the only values, if there are any."""

    name: str
    meaning: str
    kind: type[str] | type[int] = str
    default: str | int | None = ""
    choices: Sequence[str] = ()

    def schema(self) -> dict[str, Any]:
        """JSON Schema of its value, without the upper bounds: a model reads it with each request."""
        found: dict[str, Any] = {"type": _TYPES[self.kind], "description": self.meaning}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.default not in (None, ""):
            found["default"] = self.default
        if self.kind is int:
            found["minimum"] = 0
        return found

    def check(self, value: Any) -> str | int:
        """The value. Raises BadInput."""
        if type(value) is not self.kind:
            raise BadInput(f"{self.name}: want a value of type {_TYPES[self.kind]}", remedy=self.meaning)
        if isinstance(value, int):
            if value < 0:
                raise BadInput(f"{self.name}: want no negative number", remedy=self.meaning)
            return value
        text = str(value)
        if len(text) > TEXT_CHARACTERS_MAX:
            raise BadInput(f"{self.name}: longer than {TEXT_CHARACTERS_MAX} characters")
        if self.choices and text not in self.choices:
            shown = printable(text[:_SHOWN_CHARACTERS])
            raise BadInput(f"{self.name}: {shown!r} is none of its values", remedy=f"use {', '.join(self.choices)}")
        return text


def input_schema(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """JSON Schema of an object that has these."""
    found: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: one.schema() for one in parameters},
        "additionalProperties": False,
    }
    if required := [one.name for one in parameters if one.default is None]:
        found["required"] = required
    return found


def checked(parameters: Sequence[Parameter], given: Any) -> dict[str, Any]:
    """A value for each, the default where none is given. Raises BadInput for anything else."""
    if not isinstance(given, dict):
        raise BadInput("arguments: want a JSON object")
    known = {one.name: one for one in parameters}
    for name in given:
        if name not in known:
            raise UnknownInput(
                f"there is no parameter {printable(str(name)[:_SHOWN_CHARACTERS])!r}", remedy=_near(name, known)
            )
    found = {}
    for name, one in known.items():
        if name in given:
            found[name] = one.check(given[name])
        elif one.default is None:
            raise BadInput(f"{name} is missing", remedy=one.meaning)
        else:
            found[name] = one.default
    return found


def _near(name: Any, known: Mapping[str, Parameter]) -> str:
    near = difflib.get_close_matches(str(name)[:_SHOWN_CHARACTERS], known, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}" if known else "it takes none"
