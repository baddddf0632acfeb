"""files.budget: time in proportion to the size."""

from __future__ import annotations

import pytest

from exporter.files.budget import ReadBudget, Unfinished


class TestReadBudget:
    def test_larger_file_may_take_longer(self) -> None:
        small, large = (ReadBudget.for_size(size, clock=lambda: 0.0) for size in (0, 4 << 20))

        assert (small.seconds, large.seconds) == (1.5, 3.5)

    def test_spent_budget_ends_the_reading(self) -> None:
        now = [10.0]
        budget = ReadBudget.for_size(0, clock=lambda: now[0])
        budget.check()
        now[0] = 11.6
        with pytest.raises(Unfinished, match=r"more than 1\.5 s"):
            budget.check()
