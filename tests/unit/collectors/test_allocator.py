"""allocator: GPU memory of a process, and host memory that it has pinned."""

from __future__ import annotations

from exporter import catalog
from exporter.collectors import allocator
from exporter.kernel.tables import Tables
from exporter.totals import Series, Total
from tests.support.tables import FakeTables


def collected(**counts: int) -> dict[Series, Total]:
    """Totals of a process with these counts."""
    kernel = FakeTables()
    kernel.process(1, **counts)  # type: ignore[arg-type]
    return allocator.collect(Tables(kernel.maps).read())[1]


class TestLive:
    def test_live_is_allocated_less_freed(self) -> None:
        """1,000 allocated, 400 freed, at most 900 at a time; none of it managed, and nothing pinned."""
        found = collected(allocated_bytes=1_000, freed_bytes=400, peak_bytes=900, live_allocations=3)

        assert found == {
            Series(catalog.allocator.ALLOCATED, ()): 1_000,
            Series(catalog.allocator.FREED, ()): 400,
            Series(catalog.allocator.LIVE, ()): 600,
            Series(catalog.allocator.PEAK, ()): 900,
            Series(catalog.allocator.MANAGED, ()): 0,
            Series(catalog.allocator.PINNED, ()): 0,
            Series(catalog.allocator.ALLOCATIONS, ()): 3,
        }

    def test_after_all_is_freed_live_is_0(self) -> None:
        """It is known to be 0."""
        found = collected(allocated_bytes=1_000, freed_bytes=1_000)

        assert found[Series(catalog.allocator.LIVE, ())] == 0

    def test_process_that_never_allocated_has_no_memory_series(self) -> None:
        """Not 0: nothing was seen."""
        assert collected() == {}

    def test_frees_of_unknown_allocations_are_counted_separately(self) -> None:
        """The exporter came late."""
        assert collected(unknown_frees=5) == {Series(catalog.allocator.UNKNOWN_FREES, ()): 5}


class TestKinds:
    def test_managed_memory_is_part_of_live_memory(self) -> None:
        """600 live, 200 of them managed."""
        found = collected(allocated_bytes=600, managed_bytes=200)

        assert found[Series(catalog.allocator.LIVE, ())] == 600
        assert found[Series(catalog.allocator.MANAGED, ())] == 200

    def test_pinned_memory_is_host_memory(self) -> None:
        """A process may pin and never allocate."""
        assert collected(pinned_bytes=4_096, live_allocations=1) == {
            Series(catalog.allocator.PINNED, ()): 4_096,
            Series(catalog.allocator.ALLOCATIONS, ()): 1,
        }
