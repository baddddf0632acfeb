"""timeline.wire: fields of protobuf messages, and what is none."""

from __future__ import annotations

import struct

import pytest

from exporter.output.protobuf import nested, varint
from exporter.text.untrusted import Untrusted
from exporter.timeline.wire import double, fields, message, number


def read(raw: bytes) -> list[tuple[int, object]]:
    return [(field, value if isinstance(value, int) else bytes(value)) for field, value in fields(memoryview(raw))]


class TestFields:
    def test_message_without_fields(self) -> None:
        assert read(b"") == []

    def test_number_and_text(self) -> None:
        assert read(b"\x08\x96\x01" + nested(b"\x12", b"abc")) == [(1, 150), (2, b"abc")]

    def test_largest_number(self) -> None:
        assert read(b"\x08" + varint((1 << 64) - 1)) == [(1, (1 << 64) - 1)]

    def test_numbers_of_fixed_length(self) -> None:
        assert read(b"\x09" + bytes(8) + b"\x15" + bytes(4)) == [(1, bytes(8)), (2, bytes(4))]

    def test_double(self) -> None:
        ((_, value),) = fields(memoryview(b"\x29" + struct.pack("<d", 0.25)))

        assert double(value) == 0.25

    @pytest.mark.parametrize(
        "raw",
        [b"\x08", b"\x08\x80", b"\x08" + b"\x80" * 11 + b"\x01", b"\x12\x05abc", b"\x09\x00", b"\x0b", b"\x0e\x00"],
        ids=["no value", "cut number", "endless number", "cut text", "cut double", "group", "no such type"],
    )
    def test_what_is_no_message_is_refused(self, raw: bytes) -> None:
        with pytest.raises(Untrusted):
            read(raw)

    def test_values_have_the_type_that_is_wanted(self) -> None:
        with pytest.raises(Untrusted):
            number(memoryview(b"abc"))
        with pytest.raises(Untrusted):
            message(7)
        with pytest.raises(Untrusted):
            double(memoryview(b"abc"))
