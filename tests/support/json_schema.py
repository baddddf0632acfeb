"""Whether a document fits a JSON Schema, and holds no field that it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_KINDS = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


def _is_of(kind: str, value: object) -> bool:
    """True and false are no numbers."""
    return isinstance(value, _KINDS[kind]) and (isinstance(value, bool) is (kind == "boolean"))  # type: ignore[arg-type]


def offences(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Where a value does not fit: the parts of JSON Schema that our files use, and no fields beyond it."""
    yield from _offences(value, schema, "$", schema.get("$defs", {}))


def _offences(value: Any, schema: dict[str, Any], path: str, named: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        schema = named[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        found = [list(_offences(value, one, path, named)) for one in schema["anyOf"]]
        yield from min(found, key=len)
        return
    if "enum" in schema or "const" in schema:
        if value not in schema.get("enum", [schema.get("const")]):
            yield f"{path}: {value!r}"
        return
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(_is_of(kind, value) for kind in kinds):
        yield f"{path}: {value!r} is not {kinds}"
        return
    if "minimum" in schema and value < schema["minimum"]:
        yield f"{path}: {value}"
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from _offences(one, schema["items"], f"{path}[{number}]", named)
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        for name, one in value.items():
            of = fields.get(name) or schema.get("additionalProperties")
            yield from _offences(one, of, f"{path}.{name}", named) if of else [f"{path}.{name} is not in the schema"]
