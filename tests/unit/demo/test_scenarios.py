"""scenarios: what can be shown."""

from __future__ import annotations

import pytest

from exporter.demo.scenarios import SCENARIOS, Neighbours, Scenario
from exporter.demo.stage import NEIGHBOUR, Parts

ALL = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


class TestScenario:
    """Each of them."""

    @ALL
    def test_something_goes_wrong(self, scenario: Scenario) -> None:
        """In the job itself, or beside it."""
        assert scenario.fault or scenario.neighbours is not Neighbours.NONE

    @ALL
    def test_there_is_time_to_learn_what_is_usual(self, scenario: Scenario) -> None:
        """Before the fault, unless it is there from the first step on."""
        parts = Parts.of(scenario, 22.0)

        assert parts.before >= 7.9 or scenario.is_first
        assert parts.fault >= 5.0
        assert sum(parts) == pytest.approx(22.0)

    @ALL
    def test_there_is_time_to_recover(self, scenario: Scenario) -> None:
        """Unless nothing comes after the fault."""
        assert Parts.of(scenario, 22.0).after >= 6.0 or scenario.is_last

    def test_neighbour_has_a_name_that_the_kernel_keeps(self) -> None:
        """Fifteen characters."""
        assert len(NEIGHBOUR) <= 15
