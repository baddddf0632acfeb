"""causes: the order of causes and culprits."""

from __future__ import annotations

from exporter.causes import largest_culprit, largest_first


class TestLargestFirst:
    def test_most_lost_time_is_first(self) -> None:
        assert largest_first({"cron": 2, "stress-ng": 5}) == [("stress-ng", 5), ("cron", 2)]

    def test_equal_ones_are_ordered_by_name(self) -> None:
        """So that two scrapes with the same figures show the same order."""
        assert largest_first({"zsh": 2, "cron": 2}) == [("cron", 2), ("zsh", 2)]


class TestLargestCulprit:
    def test_first_of_the_culprits(self) -> None:
        assert largest_culprit((("stress-ng", 0.9), ("cron", 0.1))) == "stress-ng"

    def test_empty_without_culprits(self) -> None:
        assert largest_culprit(()) == ""
