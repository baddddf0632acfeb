"""graph: what a process captures, instantiates and launches."""

from __future__ import annotations

from exporter import catalog
from exporter.collectors import graph
from exporter.kernel.gpu_rows import GraphRow
from exporter.kernel.tables import Tables
from exporter.totals import Series
from tests.support.tables import FakeTables

ROW = GraphRow(
    captures=7,
    captured=4,
    failed=1,
    capture_ns=3_000,
    instantiated=4,
    instantiate_ns=900,
    first_launches=2,
    dropped=1,
    launches=40,
    kernels=120,
)


class TestGraphs:
    def test_row_becomes_totals(self) -> None:
        """Seven captures have begun and five ended; of four executable graphs one was dropped and one is not launched yet."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.graphs(1, ROW)

        assert graph.collect(Tables(kernel.maps).read()) == {
            1: {
                Series(catalog.graph.CAPTURES, ("captured",)): 4,
                Series(catalog.graph.CAPTURES, ("failed",)): 1,
                Series(catalog.graph.OPEN_CAPTURES, ()): 2,
                Series(catalog.graph.CAPTURE_TIME, ()): 3_000,
                Series(catalog.graph.INSTANTIATIONS, ()): 4,
                Series(catalog.graph.INSTANTIATION_TIME, ()): 900,
                Series(catalog.graph.LAUNCHES, ()): 40,
                Series(catalog.graph.NEVER_LAUNCHED, ()): 1,
            }
        }

    def test_process_without_graphs_has_no_series(self) -> None:
        kernel = FakeTables()
        kernel.process(1)

        assert graph.collect(Tables(kernel.maps).read()) == {}

    def test_counts_are_never_negative(self) -> None:
        """A launch may be counted between two fields of a row."""
        row = GraphRow(captures=1, captured=2, instantiated=1, first_launches=2)

        assert (row.open_captures, row.never_launched) == (0, 0)
