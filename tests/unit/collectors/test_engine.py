"""engine: the engine of a process, and the iterations of serving engines."""

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
    """vllm is the serving engine."""
    return Engines(Tables(kernel.maps, kernel.iterate), ("vllm",))


def totals_of(engines: Engines, process: int) -> dict[str, Total]:
    """Metric -> total of one process; all have the label of its engine."""
    found = engines.totals().get(process, {})
    assert {series.labels for series in found} == {("vllm",)}
    return {series.metric.name: total for series, total in found.items()}


class TestTotals:
    def test_serving_engine_has_iterations(self, engines: Engines) -> None:
        """Two iterations of 20 ms."""
        engines.update({1: "vllm"}, 1_050 * MS)
        found = totals_of(engines, 1)
        steps = found.pop("gpustall_engine_step_duration_seconds")

        assert isinstance(steps, HistogramTotal)
        assert (steps.counts.total, steps.sum_ns) == (2, 40 * MS)
        assert found == {
            "gpustall_engine_info": 1,
            "gpustall_engine_outlier_steps_total": 0,
            "gpustall_engine_missed_steps_total": 0,
            "gpustall_engine_idle_seconds_total": 0,
        }

    def test_training_has_an_info_and_no_iterations(self, engines: Engines) -> None:
        """It copies its loss to the host, and has steps of its own."""
        engines.update({2: "pytorch"}, 1_050 * MS)

        assert engines.totals() == {2: {Series(catalog.engine.INFO, ("pytorch",)): 1}}

    def test_process_without_an_engine_has_no_series(self, engines: Engines) -> None:
        """Whatever it copies."""
        engines.update({}, 1_050 * MS)

        assert engines.totals() == {}

    def test_engine_without_an_output_has_only_an_info(self, engines: Engines) -> None:
        """It is loading its model."""
        engines.update({3: "vllm"}, 1_050 * MS)

        assert totals_of(engines, 3) == {"gpustall_engine_info": 1}

    def test_totals_can_be_limited_to_some_processes(self, engines: Engines) -> None:
        """The others continue."""
        engines.update({1: "vllm", 2: "vllm"}, 1_050 * MS)

        assert engines.totals({2}).keys() == {2}

    def test_forgotten_process_starts_over(self, engines: Engines, kernel: FakeTables) -> None:
        """Process numbers are not reused; its row goes with it."""
        engines.update({1: "vllm"}, 1_050 * MS)
        engines.forget([1])
        kernel.outputs(1, [(9_000 * MS, 0)])
        engines.update({1: "vllm"}, 9_001 * MS)

        assert "gpustall_engine_step_duration_seconds" not in totals_of(engines, 1)
