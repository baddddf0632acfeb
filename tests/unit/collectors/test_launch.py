"""launch: kernels by how they are launched, and by size."""

from __future__ import annotations

from exporter import catalog
from exporter.collectors import launch
from exporter.kernel.gpu_rows import GraphRow
from exporter.kernel.tables import Tables
from exporter.totals import Series
from tests.support.tables import FakeTables


class TestKernels:
    def test_kernels_of_graphs_and_direct_launches_are_separate(self) -> None:
        """17 direct ones; ten launches of a graph of twelve."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.feeding(1, kernels=17)
        kernel.graphs(1, GraphRow(launches=10, kernels=120))

        assert launch.collect(Tables(kernel.maps).read()) == {
            1: {
                Series(catalog.launch.LAUNCHES, ("direct",)): 17,
                Series(catalog.launch.LAUNCHES, ("graph",)): 120,
            }
        }

    def test_process_that_launches_nothing_has_no_series(self) -> None:
        """It may only copy."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.feeding(1)

        assert launch.collect(Tables(kernel.maps).read()) == {1: {}}

    def test_processes_that_share_a_slot_are_separate(self) -> None:
        """Process 1 and process 4,097."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.feeding(4097, kernels=5, place=1)

        assert launch.collect(Tables(kernel.maps).read()) == {1: {}}


class TestSizes:
    """Blocks of the grid, threads of a block."""

    def test_label_of_a_size_class_is_its_upper_limit(self) -> None:
        """The first class of blocks is 1, the last has no limit."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.geometry(1, grid=0, block=0, launches=3)
        kernel.geometry(1, grid=2, block=3, launches=4)
        kernel.geometry(1, grid=5, block=5, launches=5)

        assert launch.collect(Tables(kernel.maps).read()) == {
            1: {
                Series(catalog.launch.SIZES, ("1", "32")): 3,
                Series(catalog.launch.SIZES, ("64", "256")): 4,
                Series(catalog.launch.SIZES, ("+Inf", "+Inf")): 5,
            }
        }
