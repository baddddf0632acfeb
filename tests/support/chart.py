"""The Helm chart as its users see it: the schema of its values, their defaults, and the table of other charts' values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.requirements import ROOT

CHART = ROOT / "deploy" / "helm" / "gpu-stall-exporter"
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
_ROW = re.compile(r"^\| `([\w.]+)` \| (?:D|N|D, N) \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """A row of the table in docs/deployment.md. reason: why the value is refused, "" if it is not."""

    name: str
    here: str

    @property
    def reason(self) -> str:
        found = re.fullmatch(r"refused: (.+?)(?:\. [A-Z].*)?", self.here)
        return found[1] if found else ""


def rows() -> list[Row]:
    """All rows, in order."""
    return [Row(*found) for found in _ROW.findall((ROOT / "docs" / "deployment.md").read_text(encoding="utf-8"))]


def schema_of(name: str) -> dict[str, Any] | None:
    """The schema of a value such as `image.tag`; of one that is refused with its parent, the parent's; None if it has none."""
    part = SCHEMA
    for key in name.split("."):
        part = resolved(part).get("properties", {}).get(key)
        if part is None or reasons(part):
            break
    return part and resolved(part)


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    """A reference, followed."""
    return resolved(SCHEMA["definitions"][part["$ref"].rpartition("/")[2]]) if "$ref" in part else part


def reasons(part: dict[str, Any]) -> list[str]:
    """Why the schema refuses a value that other charts have. They are sentences, so they have blanks."""
    return [one for one in (*part.get("enum", ()), part.get("const")) if isinstance(one, str) and " here" in one]


def with_default(name: str) -> bool:
    """Whether values.yaml has a default of a value."""
    part: Any = DEFAULTS
    for key in name.split("."):
        if not isinstance(part, dict) or key not in part:
            return False
        part = part[key]
    return True
