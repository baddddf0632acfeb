"""The sections of a file. The dynamic linker does without them, and `strip` leaves those that are loaded.

In: a file that a tenant may have written. Out: where its sections are.
Source: the gABI, chapter 4, "Sections".
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from exporter.errors import MalformedElf
from exporter.host.bounded_file import BoundedFile

SECTIONS_MAX: Final = 1_024
NAMES_BYTES_MAX: Final = 64 << 10
_READS_MAX: Final = 3  # header, sections, names
_TABLE_AT: Final = 40
# Of Elf64_Ehdr: e_shoff at 40, e_shentsize at 58, e_shnum at 60, e_shstrndx at 62
_TABLE: Final = struct.Struct("<Q10xHHH")
# Elf64_Shdr: name, type, flags, addr, offset, size, link, info, align, entsize
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SHF_ALLOC: Final = 2


class Section(NamedTuple):
    """name_at: in the section with the names. kind: sh_type. link: number of another section."""

    name_at: int
    kind: int
    flags: int
    address: int
    offset: int
    size_bytes: int
    link: int


def sections(file: BoundedFile) -> tuple[list[Section], int]:
    """All of them, and the number of the one with their names; [] for a file without, and for too many.

    Raises MalformedElf when they are not in the file.
    """
    offset, entry_size, count, names = _TABLE.unpack(file.read(_TABLE_AT, _TABLE.size))
    if not offset or entry_size != _SECTION.size or not 0 < count <= SECTIONS_MAX:
        return [], 0
    content = file.read(offset, _SECTION.size * count)
    return [Section(*row[:7]) for row in _SECTION.iter_unpack(content)], names


def section_address(fd: int, size_bytes: int, name: bytes) -> int | None:
    """The virtual address of the first loaded section of this name; None without one.

    Raises MalformedElf when the table is broken.
    """
    file = BoundedFile(fd, size_bytes, reads_left=_READS_MAX)
    found, names_number = sections(file)
    if names_number >= len(found):
        return None
    table = found[names_number]
    if table.size_bytes > NAMES_BYTES_MAX:
        raise MalformedElf(f"the names of its sections have {table.size_bytes} bytes")
    names = file.read(table.offset, table.size_bytes)
    for section in found:
        if section.flags & _SHF_ALLOC and names.startswith(name + b"\0", section.name_at):
            return section.address
    return None
