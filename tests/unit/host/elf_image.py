"""Builds a small 64-bit ELF library byte by byte, so that tests can break single fields of it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CODE_ADDRESS = 0x401000  # the executable segment begins at file offset CODE_OFFSET
CODE_OFFSET = 0x100
CODE_BYTES = 0x100
TABLES_OFFSET = 0x200  # dynamic section and tables, mapped at the same address plus DATA_SHIFT
DATA_SHIFT = 0x600000
FUNC, IFUNC, OBJECT = 2, 10, 1
GLOBAL = 1


@dataclass
class Sym:
    """One dynamic symbol; section 0 is an import. version 1 is the default one, 0x8002 a hidden one."""

    name: str
    address: int = CODE_ADDRESS
    kind: int = FUNC
    section: int = 1
    version: int = 1


@dataclass
class Image:
    """The parts of a library; content() lays them out. Symbols are hashed into one bucket, so every chain is walked."""

    symbols: list[Sym] = field(default_factory=list)
    soname: str = "libtest.so.1"
    build_id: bytes = bytes(range(20))
    machine: int = 62
    hash_style: str = "gnu"
    with_versions: bool = False
    gnu_hashes: dict[str, int] = field(default_factory=dict)

    def content(self) -> bytes:
        """The whole file: headers, note, code, dynamic section, strings, symbols, hash table, versions."""
        strings = b"\0" + self.soname.encode() + b"\0"
        symbols = bytes(24)
        for symbol in self.symbols:
            info = GLOBAL << 4 | symbol.kind
            symbols += struct.pack("<IBBHQQ", len(strings), info, 0, symbol.section, symbol.address, 16)
            strings += symbol.name.encode() + b"\0"
        strings += bytes(-len(strings) % 8)
        versions = struct.pack(f"<{len(self.symbols) + 1}H", 0, *(s.version for s in self.symbols))
        hashes = self._gnu_table() if self.hash_style == "gnu" else self._sysv_table()

        position = TABLES_OFFSET + 16 * 8
        offsets = []
        for table in (strings, symbols, hashes, versions):
            offsets.append(position + DATA_SHIFT)
            position += len(table) + -len(table) % 8
        hash_tag = 0x6FFFFEF5 if self.hash_style == "gnu" else 4
        entries = [(14, 1), (5, offsets[0]), (10, len(strings)), (6, offsets[1]), (hash_tag, offsets[2])]
        if self.with_versions:
            entries.append((0x6FFFFFF0, offsets[3]))
        dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
        tables = dynamic.ljust(16 * 8, b"\0")
        for table in (strings, symbols, hashes, versions):
            tables += table + bytes(-len(table) % 8)

        note = struct.pack("<III4s", 4, len(self.build_id), 3, b"GNU\0") + self.build_id
        note_offset = TABLES_OFFSET + len(tables)
        segments = [
            (1, 5, CODE_OFFSET, CODE_ADDRESS, CODE_ADDRESS, CODE_BYTES, CODE_BYTES, 0x1000),
            (1, 6, TABLES_OFFSET, TABLES_OFFSET + DATA_SHIFT, 0, len(tables), len(tables), 0x1000),
            (2, 6, TABLES_OFFSET, TABLES_OFFSET + DATA_SHIFT, 0, 16 * 8, 16 * 8, 8),
            (4, 4, note_offset, note_offset, 0, len(note), len(note), 4),
        ]
        header = b"\x7fELF\x02\x01\x01" + bytes(9)
        header += struct.pack("<HHIQQQIHHHHHH", 3, self.machine, 1, 0, 64, 0, 0, 64, 56, len(segments), 0, 0, 0)
        start = header + b"".join(struct.pack("<IIQQQQQQ", *segment) for segment in segments)
        # The program headers may run into the code's place: no test executes it.
        return start.ljust(TABLES_OFFSET, b"\x90") + tables + note

    def _gnu_table(self) -> bytes:
        """One bucket, a bloom filter that lets everything pass, hashes as the test gives them or by the definition."""
        hashes = [self.gnu_hashes.get(s.name, _djb(s.name)) & ~1 for s in self.symbols]
        if hashes:
            hashes[-1] |= 1
        head = struct.pack("<IIIIQI", 1, 1, 1, 6, 2**64 - 1, 1 if hashes else 0)
        return head + struct.pack(f"<{len(hashes)}I", *hashes)

    def _sysv_table(self) -> bytes:
        count = len(self.symbols)
        chain = [0, *(number + 1 for number in range(1, count)), 0]
        return struct.pack(f"<III{count + 1}I", 1, count + 1, 1 if count else 0, *chain[: count + 1])


def with_sections(content: bytes, sections: dict[str, tuple[int, int]]) -> bytes:
    """A file and its section headers. sections: (sh_flags, sh_addr) by name."""
    names, rows = b"\0", bytes(64)
    for name, (flags, address) in {**sections, ".shstrtab": (0, 0)}.items():
        rows += struct.pack("<IIQQQQIIQQ", len(names), 1, flags, address, len(content), 0, 0, 0, 8, 0)
        names += name.encode() + b"\0"
    rows = rows[:-32] + struct.pack("<Q", len(names)) + rows[-24:]
    made = bytearray(content + names + rows)
    struct.pack_into("<Q", made, 40, len(content) + len(names))
    struct.pack_into("<HHH", made, 58, 64, len(sections) + 2, len(sections) + 1)
    return bytes(made)


def _djb(name: str) -> int:
    value = 5381
    for byte in name.encode():
        value = (value * 33 + byte) % 2**32
    return value


@contextmanager
def opened(content: bytes) -> Iterator[int]:
    """A descriptor of a file in memory with this content."""
    fd = os.memfd_create("elf_image")
    try:
        os.write(fd, content)
        yield fd
    finally:
        os.close(fd)
