"""What `explain --nodes` is made of: prices, and jobs that have something to report."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput
from exporter.fleet.fleet_explanation import price_of
from exporter.rules.cost import Rate
from tests.support.rank_reports import a_node, a_rank
from tests.unit.fleet.test_fleet_text import explained, slow


class TestJobs:
    def test_fine_ones_are_left_out_of_the_wrong_ones(self) -> None:
        fine = explained({"gpu1": a_node(a_rank(0), a_rank(1), a_rank(2), a_rank(3))})

        assert (len(fine.jobs), len(fine.wrong), len(slow().wrong)) == (1, 0, 1)

    def test_answer_without_a_node_is_not_complete(self) -> None:
        assert (explained({}).is_complete, slow().is_complete) == (True, False)


class TestPrice:
    def test_price_of_all_other_models_is_that_of_any(self) -> None:
        assert price_of([Rate("H100", 3.0), Rate("default", 2.0)]) == 2.0

    def test_only_price_is_that_of_any(self) -> None:
        assert price_of([Rate("H100", 3.0)]) == 3.0

    def test_several_prices_are_ambiguous(self) -> None:
        with pytest.raises(BadInput, match="several models"):
            price_of([Rate("H100", 3.0), Rate("A100", 2.0)])
