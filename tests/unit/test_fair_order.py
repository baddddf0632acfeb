"""model.fairly(): an owner of many does not take every place."""

from __future__ import annotations

from exporter.model import fairly


class TestFairly:
    def test_the_first_of_each_owner_come_first(self) -> None:
        """In their own order."""
        assert fairly(["a1", "a2", "a3", "b1", "c1", "b2"], lambda one: one[0]) == ["a1", "b1", "c1", "a2", "b2", "a3"]

    def test_order_of_one_owner_stays(self) -> None:
        assert fairly([3, 1, 2], lambda _one: "") == [3, 1, 2]
