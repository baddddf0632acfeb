"""Sizes of tables by the machine's memory."""

from __future__ import annotations

from exporter.kernel.capacities import GIBIBYTE, capacity


class TestCapacity:
    def test_shared_table_has_room_for_two(self) -> None:
        """An owner alone gets half, which is what the source declares."""
        assert capacity("errors", 16384, 64 * GIBIBYTE) == 32768

    def test_large_machine_has_twice_the_room(self) -> None:
        """A GPU node has terabytes."""
        assert capacity("errors", 16384, 2048 * GIBIBYTE) == 65536

    def test_small_machine_has_half_of_it(self) -> None:
        assert capacity("errors", 16384, 2 * GIBIBYTE) == 16384

    def test_table_with_one_row_for_each_process_follows_the_processes(self) -> None:
        assert capacity("cadence", 8192, 64 * GIBIBYTE) == capacity("processes", 8192, 64 * GIBIBYTE) == 16384

    def test_other_tables_are_as_declared(self) -> None:
        assert capacity("disk_requests", 16384, 2048 * GIBIBYTE) == 16384
