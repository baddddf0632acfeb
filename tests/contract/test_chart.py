"""The values of the Helm chart: the schema is strict, every value has a default, and the table of other charts' values is true.

tests/conformance renders that table with Helm; these tests run without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.chart import SCHEMA, reasons, resolved, rows, schema_of, with_default

OPEN = {"global"}
"""Objects that may have other keys: an umbrella chart's own."""
ROWS = rows()
CHOICES = ("startupProbe.", "livenessProbe.", "readinessProbe.", "podSecurityContext.", "containerSecurityContext.")
KUBERNETES = ("dnsConfig.", "resources.claims", "attachMetadata.", "security.")
"""Keys of Kubernetes that have no default of ours."""


def objects(part: dict[str, Any], name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and schema of each object whose keys the schema lists."""
    part = resolved(part)
    if "properties" in part:
        yield name, part
    for key, one in part.get("properties", {}).items():
        yield from objects(one, f"{name}.{key}".lstrip("."))
    if isinstance(part.get("items"), dict):
        yield from objects(part["items"], f"{name}[]")


def values(part: dict[str, Any], name: str = "") -> Iterator[str]:
    """Each value that the schema accepts, by its name; those with a choice of keys by the name of the object."""
    for key, one in resolved(part).get("properties", {}).items():
        if not reasons(resolved(one)):
            inner = f"{name}.{key}".lstrip(".")
            yield inner
            if with_default(inner) and "properties" in resolved(one):
                yield from values(one, inner)


class TestSchema:
    """values.schema.json."""

    def test_unknown_values_are_refused_everywhere(self) -> None:
        """A misspelt one would have no effect, in silence."""
        loose = {name for name, part in objects(SCHEMA) if part.get("additionalProperties") is not False}

        assert loose == OPEN

    def test_every_value_stands_in_values_yaml(self) -> None:
        """With a default and a comment beside it; fields of Kubernetes' own objects need not."""
        missing = [
            name
            for name in values(SCHEMA)
            if not with_default(name) and not name.startswith(CHOICES) and not any(one in name for one in KUBERNETES)
        ]

        assert missing == []

    @pytest.mark.parametrize(
        ("field", "only"),
        [
            ("privileged", False),
            ("allowPrivilegeEscalation", False),
            ("readOnlyRootFilesystem", True),
            ("runAsUser", 0),
            ("runAsNonRoot", False),
        ],
    )
    def test_a_container_cannot_get_more_rights(self, field: str, only: object) -> None:
        """Apart from its reason, one value is accepted: the one that the template has."""
        part = schema_of(f"containerSecurityContext.{field}")

        assert part is not None
        assert [one for one in part["enum"] if one not in reasons(part)] == [only]

    def test_capabilities_cannot_be_changed(self) -> None:
        """Nor those of the pod, which has none."""
        part = schema_of("containerSecurityContext.capabilities")

        assert part is not None
        assert part.keys() == {"const"}
        assert schema_of("podSecurityContext.capabilities") is None


class TestTable:
    """docs/deployment.md: 40 values of dcgm-exporter's and prometheus-node-exporter's charts."""

    def test_it_has_forty_values(self) -> None:
        """Each once."""
        assert len({row.name for row in ROWS}) == len(ROWS) == 40

    @pytest.mark.parametrize("row", [row for row in ROWS if not row.reason], ids=lambda row: row.name)
    def test_a_value_with_the_same_name_has_a_default(self, row: Any) -> None:
        """And a schema that accepts it."""
        part = schema_of(row.name)

        assert row.here.startswith("same")
        assert part is not None
        assert not reasons(part)
        assert with_default(row.name)

    @pytest.mark.parametrize("row", [row for row in ROWS if row.reason], ids=lambda row: row.name)
    def test_a_refused_value_has_the_same_reason_in_the_schema(self, row: Any) -> None:
        """Helm prints it."""
        part = schema_of(row.name)

        assert part is not None
        assert [one.partition(": ")[2] for one in reasons(part)] == [row.reason]


class TestReasons:
    """Why the schema refuses values of other charts."""

    def test_what_they_recommend_exists(self) -> None:
        """A value, or a key of one."""
        found = {
            reason
            for _, part in objects(SCHEMA)
            for one in part["properties"].values()
            for reason in reasons(resolved(one))
        }
        recommended = {
            name
            for reason in found
            for name in re.findall(r"(?:\buse|\bor|\band|,|: config) ([a-z]+[A-Z.][\w.]+)", reason)
        }

        assert len(recommended) > 10
        assert {name for name in recommended if schema_of(name) is None} == set()
