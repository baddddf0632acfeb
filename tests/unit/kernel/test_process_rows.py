"""process_rows: traced processes and their communicators."""

from __future__ import annotations

import struct

from exporter.kernel.abi import Copy
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables


class TestProcesses:
    def test_process_row_has_the_layout_of_the_header(self, kernel: FakeTables, tables: Tables) -> None:
        """Byte by byte: tgid, communicators, start, cgroup, six directions, ten totals, comm."""
        kernel.maps["processes"].rows[b"\x07\0\0\0"] = struct.pack(
            "<IIQQ6Q10Q16s", 4026, 2, 47, 99, *range(10, 16), 1000, 400, 3, 9, 700, 200, 64, 5, 4096, 88, b"python3"
        )

        assert tables.read_processes() == {
            7: ProcessRow(
                4026, 47, 99, (10, 11, 12, 13, 14, 15), 1000, 400, 3, 9, 700, 200, 64, 5, 4096, 88, b"python3"
            )
        }

    def test_copied_bytes_are_indexed_by_direction(self, kernel: FakeTables, tables: Tables) -> None:
        """cudaMemcpyKind, then peer copies."""
        kernel.process(1, copied_bytes={Copy.DEVICE_TO_HOST: 64, Copy.PEER: 8})

        assert tables.read_processes()[1].copied_bytes == (0, 0, 64, 0, 0, 8)

    def test_comm_of_16_bytes_has_no_nul(self, kernel: FakeTables, tables: Tables) -> None:
        kernel.process(1, comm=b"0123456789abcdef")

        assert tables.read_processes()[1].comm == b"0123456789abcdef"


class TestCommunicators:
    def test_communicators_are_in_the_order_of_their_creation(self, kernel: FakeTables, tables: Tables) -> None:
        """By process; the map has no order."""
        kernel.communicator(1, address=0xB0, digest=2, created_ns=20, rank=1, ranks=2, ordinal=2)
        kernel.communicator(1, address=0xA0, digest=1, created_ns=10, rank=5, ranks=8, ordinal=1)
        kernel.communicator(2, address=0xA0, digest=0, created_ns=15, rank=-1, ranks=0, ordinal=1)

        assert tables.read_communicators() == {
            1: [CommunicatorRow(1, 10, 5, 8, 1), CommunicatorRow(2, 20, 1, 2, 2)],
            2: [CommunicatorRow(0, 15, -1, 0, 1)],
        }
