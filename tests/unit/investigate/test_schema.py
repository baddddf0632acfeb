"""schema: names that statements and scripts rely on."""

from __future__ import annotations

import re

import pytest

from exporter.investigate.schema import VIEW_OF, VIEWS, schema_lines

UNITS = ("_seconds", "_ratio")
COUNTED = {
    "workload",
    "run",
    "pid",
    "culprit_pid",
    "steps",
    "calls",
    "errors",
    "timed_calls",
    "slow_calls",
    "line_number",
}
COUNTED |= {"voluntary_switches", "involuntary_switches"}


class TestNames:
    def test_views_are_those_of_version_1(self) -> None:
        """A view that is renamed breaks scripts: VERSION changes with it."""
        assert list(VIEW_OF) == [
            *(
                "workloads",
                "steps",
                "step_buckets",
                "operations",
                "operation_buckets",
                "lost",
                "culprits",
                "thread_states",
                "call_sites",
            ),
            *("chains", "chain_events", "stacks", "node"),
        ]

    @pytest.mark.parametrize("name", VIEW_OF)
    def test_number_has_a_unit_or_is_a_count_or_a_switch(self, name: str) -> None:
        numbers = [column.name for column in VIEW_OF[name].columns if column.kind != "text"]
        without = {number for number in numbers if not number.endswith(UNITS)} - COUNTED

        assert without <= {"is_chronic", "is_running", "detects_chains"}

    @pytest.mark.parametrize("name", VIEW_OF)
    def test_name_needs_no_quotes(self, name: str) -> None:
        assert all(re.fullmatch("[a-z][a-z0-9_]*", column.name) for column in VIEW_OF[name].columns)


class TestLines:
    def test_every_view_and_column_is_listed(self) -> None:
        lines = list(schema_lines())

        assert len(lines) == 1 + sum(1 + len(view.columns) for view in VIEWS)
        assert lines[0].startswith("views, version 1;")
