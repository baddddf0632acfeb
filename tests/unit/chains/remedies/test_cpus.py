"""remedies.cpus: lists of CPUs."""

from __future__ import annotations

import pytest

from exporter.chains.remedies.cpus import cpu_list, parse_cpus


class TestParse:
    @pytest.mark.parametrize(("text", "cpus"), [("0", {0}), ("0-3,8", {0, 1, 2, 3, 8}), ("1,3", {1, 3}), ("", set())])
    def test_ranges_and_single_cpus(self, text: str, cpus: set[int]) -> None:
        assert parse_cpus(text) == cpus

    @pytest.mark.parametrize("text", ["0-3;id", "-1", "0-", ",", "0 -x", "0-3\n", "$(id)", "9" * 6])
    def test_another_form_is_empty(self, text: str) -> None:
        """A recording is a file, which may have anything."""
        assert parse_cpus(text) == frozenset()


class TestList:
    @pytest.mark.parametrize(("cpus", "text"), [({0, 1, 2, 3, 8}, "0-3,8"), ({5}, "5"), ({1, 3}, "1,3"), (set(), "")])
    def test_neighbours_are_a_range(self, cpus: set[int], text: str) -> None:
        assert cpu_list(cpus) == text
