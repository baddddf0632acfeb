"""exporter.demo.scenarios: what each scenario needs."""

from __future__ import annotations

import pytest

from exporter.demo.scenarios import SCENARIOS, Scenario
from exporter.recording import file
from gpustall_standin.scenarios import PLANS


class TestScenario:
    """One entry of SCENARIOS."""

    @pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
    def test_it_has_a_recording(self, scenario: Scenario) -> None:
        """For `demo --replay`."""
        assert file.read(scenario.recording).compressed_ticks

    def test_each_has_a_job_for_a_live_demo(self) -> None:
        """In the same order."""
        assert list(PLANS) == list(SCENARIOS)
