"""python.memory: reads of a process's memory, bounded in number and size."""

from __future__ import annotations

import pytest

from exporter.errors import NotReadable
from exporter.python.memory import READ_BYTES_MAX, BoundedMemory
from tests.support.python_memory import MadeMemory


def made(content: bytes, address: int = 0x10_0000, reads_max: int = 8) -> BoundedMemory:
    memory = MadeMemory()
    memory.put(content, address)
    return BoundedMemory(memory, reads_max)


class TestContent:
    def test_number_is_little_endian(self) -> None:
        assert made(bytes(range(8))).word(0x10_0000) == 0x0706050403020100

    def test_long_content_is_read_in_pieces(self) -> None:
        """9,000 bytes: three reads of at most 4,096."""
        content = bytes(range(250)) * 36
        memory = made(content, reads_max=3)

        assert memory.content(0x10_0000, 9000) == content

    def test_nothing_is_read_of_nothing(self) -> None:
        assert made(b"", reads_max=0).content(0x10_0000, 0) == b""

    @pytest.mark.parametrize(
        ("address", "size"),
        [(0, 8), (8, 8), (-8, 8), (1 << 63, 8), ((1 << 64) - 4, 8), (0x10_0000, -1), (0x10_0000, 1 << 63)],
    )
    def test_place_that_no_process_has(self, address: int, size: int) -> None:
        """A NULL with an offset, the kernel's addresses, and sizes that wrap around."""
        with pytest.raises(NotReadable, match="no process has"):
            made(bytes(64)).content(address, size)

    def test_reads_are_counted(self) -> None:
        memory = made(bytes(64), reads_max=2)
        memory.byte(0x10_0000)
        memory.words(0x10_0000, 4)

        with pytest.raises(NotReadable, match="more reads"):
            memory.byte(0x10_0000)

    def test_reader_that_returns_less_is_not_believed(self) -> None:
        memory = BoundedMemory(lambda address, size: bytes(size - 1), 8)

        with pytest.raises(NotReadable, match="7 of 8"):
            memory.word(0x10_0000)


class TestEnds:
    def test_content_up_to_the_end_of_a_page(self) -> None:
        """The next page cannot be read."""
        assert made(b"x" * 16, 0x10_0FF0).up_to(0x10_0FF0, 256) == b"x" * 16

    def test_whole_content_where_it_is(self) -> None:
        assert made(b"x" * 300, 0x10_0FF0).up_to(0x10_0FF0, 256) == b"x" * 256

    def test_nothing_in_the_page(self) -> None:
        with pytest.raises(NotReadable):
            made(b"x" * 16, 0x10_0000).up_to(0x20_0000, READ_BYTES_MAX)

    def test_text_ends_before_its_nul(self) -> None:
        assert made(b"code\0rest").c_string(0x10_0000, 9) == b"code"

    def test_text_without_an_end(self) -> None:
        with pytest.raises(NotReadable, match="does not end"):
            made(b"code" * 8).c_string(0x10_0000, 32)
