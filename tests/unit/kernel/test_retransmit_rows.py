"""kernel.retransmit_rows: TCP segments that were sent again, byte by byte."""

from __future__ import annotations

import struct

from exporter.kernel.abi import IpFamily
from exporter.kernel.retransmit_rows import RetransmitKey, RetransmitRow, forget_retransmits, read_retransmits
from exporter.kernel.share_rows import Shares
from tests.support.tables import FakeMap

RAW_KEY = struct.pack("<QII", 42, IpFamily.IPV6, 0)


class TestRetransmits:
    def test_row_has_segments_and_handshakes_of_a_control_group(self) -> None:
        table = FakeMap()
        table.rows[RAW_KEY] = struct.pack("<IIQQ", 300, 0, 5, 2)

        assert read_retransmits(table) == {RetransmitKey(42, IpFamily.IPV6): RetransmitRow(5, 2)}

    def test_forgotten_row_is_deleted(self) -> None:
        table = FakeMap()
        table.rows[RAW_KEY] = bytes(24)
        forget_retransmits(Shares({"retransmits": table}), RetransmitKey(42, IpFamily.IPV6))

        assert table.rows == {}
