"""call_site_rows: slow calls by stack, packed by hand."""

from __future__ import annotations

import struct

from exporter.kernel.abi import PythonStatus
from exporter.kernel.call_site_rows import CallSiteKey, CallSiteRow, read_call_sites
from exporter.kernel.python_frames import CodeFrame
from tests.support.tables import FakeMap

KEY = struct.pack("=IHHQ", 3, 20, 0, 77)


def a_table() -> FakeMap:
    """Process 3 with 23 slow calls of operation 20 from one stack of one frame."""
    table = FakeMap()
    head = struct.pack("=QQQQIIIIII", 23, 900, 50, 20, 4711, 4700, 1, 0, 1, 0)
    table.put(KEY, head + struct.pack("=QQQ", 0x1000, 0x1010, 0x77).ljust(768, b"\xff"))
    return table


class TestReading:
    def test_row_has_the_frames_that_it_counts(self) -> None:
        assert read_call_sites(a_table()) == {
            CallSiteKey(3, 20, 77): CallSiteRow(
                23, 900, 50, 20, 4711, 4700, 1, PythonStatus.WALKED, (CodeFrame(0x1000, 0x1010, 0x77),)
            )
        }

    def test_without_the_programs_there_are_none(self) -> None:
        assert read_call_sites(None) == {}
