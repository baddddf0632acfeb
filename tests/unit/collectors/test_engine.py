"""engine: who is which engine, and the pace of those that serve."""

from __future__ import annotations

import pytest

from exporter import catalog
from exporter.collectors.engine import Engines
from exporter.kernel.tables import Tables
from exporter.totals import HistogramTotal, Series, Total
from tests.support.tables import FakeTables

MS = 1_000_000


@pytest.fixture
def kernel() -> FakeTables:
    """Process 1 has had three outputs, 20 ms apart; so has process 2."""
    tables = FakeTables()
    for process in (1, 2):
        tables.outputs(process, [(1_000 * MS, 0), (1_020 * MS, 0), (1_040 * MS, 0)])
    return tables


@pytest.fixture
def engines(kernel: FakeTables) -> Engines:
    """Of which vllm serves."""
    return Engines(Tables(kernel.maps, kernel.iterate), ("vllm",))


def said(engines: Engines, process: int) -> dict[str, Total]:
    """Metric -> total of one process, all with the label of its engine."""
    found = engines.totals().get(process, {})
    assert {series.labels for series in found} == {("vllm",)}
    return {series.metric.name: total for series, total in found.items()}


class TestTotals:
    """What is told of whom."""

    def test_engine_that_serves_tells_its_pace(self, engines: Engines) -> None:
        """Two iterations of 20 ms."""
        engines.update({1: "vllm"}, 1_050 * MS)
        found = said(engines, 1)
        steps = found.pop("gpustall_engine_step_duration_seconds")

        assert isinstance(steps, HistogramTotal)
        assert (steps.counts.total, steps.sum_ns) == (2, 40 * MS)
        assert found == {
            "gpustall_engine_info": 1,
            "gpustall_engine_outlier_steps_total": 0,
            "gpustall_engine_missed_steps_total": 0,
            "gpustall_engine_idle_seconds_total": 0,
        }

    def test_training_tells_its_name_and_no_pace(self, engines: Engines) -> None:
        """It copies its loss to the host, and has steps of its own."""
        engines.update({2: "pytorch"}, 1_050 * MS)

        assert engines.totals() == {2: {Series(catalog.engine.INFO, ("pytorch",)): 1}}

    def test_unknown_program_tells_nothing(self, engines: Engines) -> None:
        """Whatever it copies."""
        engines.update({}, 1_050 * MS)

        assert engines.totals() == {}

    def test_engine_without_an_output_tells_its_name(self, engines: Engines) -> None:
        """It loads its model."""
        engines.update({3: "vllm"}, 1_050 * MS)

        assert said(engines, 3) == {"gpustall_engine_info": 1}

    def test_only_of_those_that_are_asked_for(self, engines: Engines) -> None:
        """The others go on."""
        engines.update({1: "vllm", 2: "vllm"}, 1_050 * MS)

        assert engines.totals({2}).keys() == {2}

    def test_what_is_forgotten_begins_anew(self, engines: Engines, kernel: FakeTables) -> None:
        """Numbers are not given twice; its row goes with it."""
        engines.update({1: "vllm"}, 1_050 * MS)
        engines.forget([1])
        kernel.outputs(1, [(9_000 * MS, 0)])
        engines.update({1: "vllm"}, 9_001 * MS)

        assert "gpustall_engine_step_duration_seconds" not in said(engines, 1)
