"""awaited_rows: who ended sleeps, from bytes to names."""

from __future__ import annotations

import struct

from exporter.kernel.abi import Awaited, ThreadState
from exporter.kernel.awaited_rows import AwaitedBy, AwaitedKey, read_awaited
from tests.support.tables import FakeMap


class TestRows:
    """Byte by byte, as in the header."""

    def test_row(self) -> None:
        """Process, state, tgid, kind, name up to its NUL; nanoseconds."""
        table = FakeMap()
        table.put(struct.pack("<4I16s", 7, 16, 4711, 3, b"tee\0left"), struct.pack("<Q", 23))

        assert read_awaited(table) == {AwaitedKey(7, ThreadState.OUTPUT, AwaitedBy(4711, Awaited.PROCESS, b"tee")): 23}

    def test_remains_of_a_longer_name_are_no_other_program(self) -> None:
        """The kernel leaves them behind the NUL: both rows are of one."""
        table = FakeMap()
        table.put(struct.pack("<4I16s", 7, 8, 0, 1, b"a\0b"), struct.pack("<Q", 20))
        table.put(struct.pack("<4I16s", 7, 8, 0, 1, b"a\0c"), struct.pack("<Q", 3))

        assert read_awaited(table) == {AwaitedKey(7, ThreadState.LOCK, AwaitedBy(0, Awaited.THREAD, b"a")): 23}

    def test_missing_map_is_empty(self) -> None:
        """Its programs are not loaded."""
        assert read_awaited(None) == {}
