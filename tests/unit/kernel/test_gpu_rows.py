"""gpu_rows: copies, graphs and sizes byte by byte, and their deletion when a process has ended."""

from __future__ import annotations

import struct

from exporter.kernel.abi import Copy, HostMemory
from exporter.kernel.gpu_rows import (
    CopyKey,
    CopyRow,
    GraphRow,
    forget_gpu_rows,
    read_copies,
    read_gpu_rows,
    read_graphs,
)
from tests.support.tables import FakeTables


class TestLayout:
    """In the order of bpf/abi/copies.h and graph.h."""

    def test_copy(self) -> None:
        """Process, direction, memory, blocking, padding; copies, bytes, nanoseconds."""
        kernel = FakeTables()
        kernel.maps["copies"].rows[struct.pack("<IBBBB", 7, 2, 1, 1, 0)] = struct.pack("<QQQ", 3, 300, 9_000)

        assert read_copies(kernel.maps["copies"]) == {
            CopyKey(7, Copy.DEVICE_TO_HOST, HostMemory.PINNED, 1): CopyRow(3, 300, 9_000)
        }

    def test_graphs(self) -> None:
        """Eleven sums."""
        kernel = FakeTables()
        kernel.maps["graph_rows"].rows[struct.pack("<I", 7)] = struct.pack("<11Q", *range(1, 12))

        assert read_graphs(kernel.maps["graph_rows"]) == {7: GraphRow(*range(1, 12))}


class TestOfFew:
    """A node with a thousand processes, of which one is read."""

    def test_rows_of_others_are_not_read(self) -> None:
        """Copies in both directions, and the graphs."""
        kernel = FakeTables()
        for process in (7, 8):
            for direction in (Copy.HOST_TO_DEVICE, Copy.DEVICE_TO_HOST):
                kernel.copied(process, direction, HostMemory.UNKNOWN, copies=1, copied_bytes=process, total_ns=1)
            kernel.graphs(process, GraphRow(captures=process))
        whole = read_gpu_rows(kernel.maps, (7, 8))

        part = read_gpu_rows(kernel.maps, (7,), of_few=True)

        assert part.copies == {key: row for key, row in whole.copies.items() if key.process == 7}
        assert len(part.copies) == 2
        assert part.graphs == {7: GraphRow(captures=7)}


class TestForgetting:
    def test_rows_of_ended_processes_are_deleted_and_others_stay(self) -> None:
        """Keys of the trie have the process number in big-endian order."""
        kernel = FakeTables()
        for process in (7, 8):
            kernel.copied(process, Copy.HOST_TO_DEVICE, HostMemory.PINNED, copies=1, copied_bytes=1, total_ns=1)
            kernel.graphs(process, GraphRow(captures=1))
            kernel.maps["graphs"].rows[struct.pack("<IIQ", process, 1, 0xE0)] = bytes(16)
            kernel.maps["pinned"].rows[struct.pack("<I", 84) + struct.pack(">IQ", process, 0x1000)] = bytes(4)

        forget_gpu_rows(kernel.maps, {7}, have_pinned=True)

        assert list(read_copies(kernel.maps["copies"])) == [CopyKey(8, Copy.HOST_TO_DEVICE, HostMemory.PINNED, 1)]
        assert list(read_graphs(kernel.maps["graph_rows"])) == [8]
        assert list(kernel.maps["graphs"].rows) == [struct.pack("<IIQ", 8, 1, 0xE0)]
        assert list(kernel.maps["pinned"].rows) == [struct.pack("<I", 84) + struct.pack(">IQ", 8, 0x1000)]
