"""host.sections: where a section is loaded, in files that are made."""

from __future__ import annotations

import struct

import pytest

from exporter.errors import MalformedElf
from exporter.host.sections import SECTIONS_MAX, section_address
from tests.unit.host.elf_image import Image, opened, with_sections

PLAIN = Image([]).content()
LOADED, NOT_LOADED = 2, 0
FILE = with_sections(PLAIN, {".text": (LOADED, 0x1000), ".data": (LOADED, 0x2000), ".comment": (NOT_LOADED, 0)})
TABLE_AT, SIZE_AT, COUNT_AT, NAMES_AT = 40, 58, 60, 62


def address_in(content: bytes, name: bytes = b".data") -> int | None:
    with opened(content) as fd:
        return section_address(fd, len(content), name)


def changed(offset: int, form: str, value: int) -> bytes:
    """FILE with another number in its header."""
    made = bytearray(FILE)
    struct.pack_into(form, made, offset, value)
    return bytes(made)


class TestAddress:
    def test_loaded_section_has_its_address(self) -> None:
        assert address_in(FILE) == 0x2000

    @pytest.mark.parametrize("name", [b".comment", b".dat", b".data2", b"data", b""])
    def test_section_that_is_not_loaded_or_has_another_name_has_none(self, name: bytes) -> None:
        assert address_in(FILE, name) is None

    @pytest.mark.parametrize(
        "content",
        [PLAIN, changed(SIZE_AT, "<H", 40), changed(COUNT_AT, "<H", SECTIONS_MAX + 1), changed(NAMES_AT, "<H", 7)],
    )
    def test_file_without_sections_or_with_others_than_real_ones_has_none(self, content: bytes) -> None:
        """Stripped headers, headers of another size, too many, and names in a section that is not there."""
        assert address_in(content) is None


class TestBroken:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            FILE[:50],
            FILE[:-1],
            changed(TABLE_AT, "<Q", 1 << 62),
            FILE[:-32] + struct.pack("<Q", 1 << 40) + FILE[-24:],
        ],
    )
    def test_table_that_is_not_in_the_file_is_refused(self, content: bytes) -> None:
        """No header, one cut short, the last section cut off, a table far away, and names of a terabyte."""
        with pytest.raises(MalformedElf):
            address_in(content)
