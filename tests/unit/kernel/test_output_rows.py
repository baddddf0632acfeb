"""output_rows: the ring of the last outputs in order, and the number of overwritten ones."""

from __future__ import annotations

import struct

from exporter.kernel.output_rows import Output, OutputRow, read_outputs
from tests.support.tables import FakeTables


def row(outputs: list[tuple[int, int]], before: int = 0) -> OutputRow:
    """The row of process 1."""
    kernel = FakeTables()
    kernel.outputs(1, outputs, before=before)
    return read_outputs(kernel.maps["outputs"], [1])[1]


class TestReading:
    def test_row_is_five_numbers_and_a_ring(self) -> None:
        """128 places of two numbers each."""
        kernel = FakeTables()
        value = struct.pack("<261Q", 1, 2, 30, 40, 50, 60, 70, *[0] * 254)
        kernel.maps["outputs"].rows[struct.pack("<I", 1)] = value
        found = read_outputs(kernel.maps["outputs"], [1, 2])[1]

        assert (found.outputs, found.copied, found.work_ns, found.quiet_ns, found.paused_ns) == (1, 2, 30, 40, 50)
        assert found.since(0) == ([Output(60, 70)], 0)

    def test_process_without_outputs_has_no_row(self) -> None:
        """Neither has any process if the programs are not loaded."""
        assert read_outputs(FakeTables().maps["outputs"], [1]) == {}
        assert read_outputs(None, [1]) == {}


class TestSince:
    def test_only_new_outputs_are_returned(self) -> None:
        """In order."""
        assert row([(10, 0), (20, 5), (30, 0)]).since(1) == ([Output(20, 5), Output(30, 0)], 0)

    def test_no_new_output_is_an_empty_list(self) -> None:
        """The engine is idle."""
        assert row([(10, 0)]).since(1) == ([], 0)

    def test_ring_wraps_around(self) -> None:
        """Outputs 127, 128 and 129 are at the end and at the beginning."""
        assert row([(10, 0), (20, 0), (30, 0)], before=127).since(128) == ([Output(20, 0), Output(30, 0)], 0)

    def test_place_of_the_next_output_is_not_read(self) -> None:
        """The next output overwrites the first of 128: 127 are readable."""
        found, overwritten = row([(10 * number + 10, 0) for number in range(128)]).since(0)

        assert (found[0], len(found), overwritten) == (Output(20, 0), 127, 1)
