"""YAML files that users get: no key stands twice in a mapping, and the chart's values fit the chart's JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from docs.generate import CHART, ROOT

FILES = sorted(
    path
    for folder in ("alerts", "dashboards", "deploy", "tests/alerts")
    for path in (ROOT / folder).rglob("*.yaml")
    if "templates" not in path.parts
)


def twice(path: Path) -> list[str]:
    """line: key, of each key that its mapping has already; a parser keeps the last one and does not complain."""
    found, nodes = [], list(yaml.compose_all(path.read_text(encoding="utf-8"), yaml.SafeLoader))
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            keys = [key.value for key, _ in node.value]
            found += [f"{key.start_mark.line + 1}: {key.value}" for key, _ in node.value if keys.count(key.value) > 1]
            nodes += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_key_stands_twice(path: Path) -> None:
    assert twice(path) == []


def test_key_that_stands_twice_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("a:\n- b: 1\n  c: 2\n  b: 3\n", encoding="utf-8")

    assert sorted(twice(tmp_path / "one.yaml")) == ["2: b", "4: b"]


class TestChart:
    def test_values_fit_the_schema(self) -> None:
        """As a validator of JSON Schema reads it, which helm has too."""
        schema = json.loads((ROOT / CHART / "values.schema.json").read_text(encoding="utf-8"))
        jsonschema.validators.validator_for(schema).check_schema(schema)

        jsonschema.validate(yaml.safe_load((ROOT / CHART / "values.yaml").read_text(encoding="utf-8")), schema)
