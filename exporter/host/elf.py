"""Offsets of functions in the file of a library, and which build of the library it is.

In: a descriptor of a file that a tenant may have written. Out: an ElfFile, or only MalformedElf. Reads the headers,
the notes, the dynamic section and single hash chains with bounded preads; a library of 2 GB costs the same as a small
one. Section headers may be stripped, and the dynamic linker does without them as well: only sections.py reads them.
Source: the gABI, chapters 4 and 5; uprobes want the file offset, Documentation/trace/uprobetracer.rst.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.errors import MalformedElf
from exporter.host.bounded_file import PIECE_BYTES_MAX, BoundedFile, FileState, file_state
from exporter.host.mappings import Mapping
from exporter.host.sections import section_address
from exporter.host.static_symbols import static_functions, static_variables
from exporter.host.symbol_hash import SymbolTables, defined_data_address, defined_function_address
from exporter.text.printable import printable_bytes

READS_FOR_HEADERS_MAX: Final = 32  # 1 header + 1 table + NOTE_SEGMENTS_MAX + 1 dynamic section + 1 soname, and room
READS_FOR_NAMES_MAX: Final = 512  # one long chain of DT_HASH, three reads a step
READS_PER_NAME_MAX: Final = 64  # a usual name takes 7
SEGMENTS_MAX: Final = 128
NOTE_SEGMENTS_MAX: Final = 16
NOTES_MAX: Final = 64
NOTE_SEGMENT_BYTES_MAX: Final = 16 * 1024
BUILD_ID_BYTES_MAX: Final = 64
DYNAMIC_ENTRIES_MAX: Final = 1024
SONAME_BYTES_MAX: Final = 256

# Elf64_Ehdr from e_type on: type, machine, version, entry, phoff, shoff, flags, ehsize, phentsize, phnum
_HEADER: Final = struct.Struct("<HHIQQQIHHH")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr: type, flags, offset, vaddr, paddr, filesz, memsz, align
_ELF64_LITTLE_ENDIAN: Final = b"\x7fELF\x02\x01\x01"
_ET_EXEC, _ET_DYN = 2, 3
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_PT_GNU_EH_FRAME: Final = 0x6474E550
_PF_X: Final = 1
_NT_GNU_BUILD_ID: Final = 3
_DT_NULL, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SONAME = 0, 4, 5, 6, 10, 14
_DT_GNU_HASH, _DT_VERSYM = 0x6FFFFEF5, 0x6FFFFFF0
_MACHINES: Final = {62: "x86_64", 183: "aarch64"}


@dataclass(frozen=True, slots=True)
class LoadSegment:
    """One PT_LOAD: which bytes of the file appear at which virtual addresses."""

    offset: int
    address: int
    size_bytes: int
    is_executable: bool


@dataclass(frozen=True, slots=True)
class ElfFile:
    """One library. The descriptor stays the caller's: open while symbol_offsets() is used, closed by the caller.

    frame_index: where .eh_frame_hdr is, the index of the rules for unwinding stacks; None without one.
    machine: "x86_64", "aarch64" or "other-N". build_id: hexadecimal, "" for none. soname: printable, "" for none.
    """

    fd: int
    machine: str
    build_id: str
    soname: str
    size_bytes: int
    state: FileState
    segments: tuple[LoadSegment, ...]
    tables: SymbolTables | None
    frame_index: LoadSegment | None = None

    def symbol_offsets(self, names: Iterable[str]) -> dict[str, int]:
        """File offsets of the functions among `names` that this library defines; the others are left out.

        If it exports none of them, those of its symbol table for linkers: a runtime may be linked statically into it.
        Raises MalformedElf when a table is broken or the file changed since read_elf().
        """
        if file_state(self.fd) != self.state:
            raise MalformedElf("the file changed while it was being read")
        wanted = sorted(set(names))
        addresses = self._exported(wanted) or static_functions(self.fd, self.size_bytes, wanted)
        offsets = {name: file_offset(self.segments, one, executable=True) for name, one in addresses.items()}
        return {name: offset for name, offset in offsets.items() if offset is not None}

    def _exported(self, wanted: Sequence[str]) -> dict[str, int]:
        """Addresses of the functions that others can link to; none without a dynamic hash table."""
        if self.tables is None:
            return {}
        reads_max = READS_FOR_NAMES_MAX + READS_PER_NAME_MAX * len(wanted)
        file = BoundedFile(self.fd, self.size_bytes, reads_left=reads_max)
        addresses = {}
        for name in wanted:
            address = defined_function_address(file, self.tables, name.encode("utf-8", "replace"))
            if address is not None:
                addresses[name] = address
        return addresses

    def data_address(self, name: bytes) -> int | None:
        """The virtual address of the variable `name` that this file defines; None without one.

        Raises MalformedElf as symbol_offsets() does.
        """
        if self.tables is None:
            return None
        file = BoundedFile(self.fd, self.size_bytes, reads_left=READS_FOR_NAMES_MAX + READS_PER_NAME_MAX)
        return defined_data_address(file, self.tables, name)

    def static_data_addresses(self, names: Iterable[str]) -> dict[str, int]:
        """Virtual addresses of the variables among `names`, by the symbol table for linkers, which `strip` removes.

        Raises MalformedElf when the table is broken or the file changed since read_elf().
        """
        if file_state(self.fd) != self.state:
            raise MalformedElf("the file changed while it was being read")
        return static_variables(self.fd, self.size_bytes, sorted(set(names)))

    def section_address(self, name: bytes) -> int | None:
        """The virtual address of a loaded section; None without one, as where section headers are stripped.

        Raises MalformedElf when the table is broken or the file changed since read_elf().
        """
        if file_state(self.fd) != self.state:
            raise MalformedElf("the file changed while it was being read")
        return section_address(self.fd, self.size_bytes, name)

    def build(self) -> str:
        """Which build of the library it is: its build id; lacking one, a hash of the names of its dynamic symbols.

        "" for a file that has neither. Raises MalformedElf when the names lie outside of the file.
        """
        if self.build_id or self.tables is None:
            return self.build_id
        import hashlib  # noqa: PLC0415 - OpenSSL takes 4 MiB of a reader, and few libraries have no build id

        file = BoundedFile(self.fd, self.size_bytes, reads_left=1)
        names = file.read_up_to(self.tables.strings_offset, min(self.tables.strings_size_bytes, PIECE_BYTES_MAX))
        return "names-" + hashlib.sha256(names).hexdigest()


def read_elf(fd: int) -> ElfFile:
    """The 64-bit little-endian library or program behind `fd`.

    Raises only MalformedElf, for anything else.
    """
    state = file_state(fd)
    file = BoundedFile(fd, state.size_bytes, reads_left=READS_FOR_HEADERS_MAX)
    ident = file.read(0, 64)
    if not ident.startswith(_ELF64_LITTLE_ENDIAN):
        raise MalformedElf("not a 64-bit little-endian ELF file")
    kind, machine, _version, _entry, table_offset, _shoff, _flags, _ehsize, entry_size, count = _HEADER.unpack_from(
        ident, 16
    )
    if kind not in (_ET_EXEC, _ET_DYN):
        raise MalformedElf(f"neither a library nor a program, but ELF type {kind}")
    if entry_size != _SEGMENT.size or not 0 < count <= SEGMENTS_MAX:
        raise MalformedElf(f"{count} program headers of {entry_size} bytes")
    headers = tuple(_SEGMENT.iter_unpack(file.read(table_offset, _SEGMENT.size * count)))
    segments = _load_segments(headers, state.size_bytes)
    dynamic = _dynamic_entries(file, headers)
    tables = _symbol_tables(dynamic, segments)
    return ElfFile(
        fd=fd,
        machine=_MACHINES.get(machine, f"other-{machine}"),
        build_id=_build_id(file, headers),
        soname=_soname(file, dynamic, tables),
        size_bytes=state.size_bytes,
        state=state,
        segments=segments,
        tables=tables,
        frame_index=_frame_index(headers),
    )


def _load_segments(headers: Iterable[tuple[int, ...]], size_bytes: int) -> tuple[LoadSegment, ...]:
    segments = []
    for kind, flags, offset, address, _paddr, segment_bytes, _memsz, _align in headers:
        if kind != _PT_LOAD:
            continue
        if offset + segment_bytes > size_bytes:
            raise MalformedElf(f"a segment ends at {offset + segment_bytes}, the file at {size_bytes}: cut short")
        segments.append(LoadSegment(offset, address, segment_bytes, bool(flags & _PF_X)))
    return tuple(segments)


def _frame_index(headers: Iterable[tuple[int, ...]]) -> LoadSegment | None:
    for kind, _flags, offset, address, _paddr, segment_bytes, _memsz, _align in headers:
        if kind == _PT_GNU_EH_FRAME:
            return LoadSegment(offset, address, segment_bytes, is_executable=False)
    return None


def file_offset(segments: Iterable[LoadSegment], address: int, *, executable: bool = False) -> int | None:
    """Offset in the file of the byte at a virtual address; None when no (executable) segment holds it."""
    for segment in segments:
        if executable and not segment.is_executable:
            continue
        if 0 <= address - segment.address < segment.size_bytes:
            return address - segment.address + segment.offset
    return None


def bases(segments: Iterable[LoadSegment], mapped: Iterable[Mapping]) -> list[int]:
    """What is added to the addresses in a file: one number, more if it is mapped several times.

    By the mappings of the start of an executable segment, of which a file may have more than one.
    """
    executable = [segment for segment in segments if segment.is_executable]
    found = [
        mapping.start - (segment.address - segment.offset % mmap.PAGESIZE)
        for mapping in mapped
        for segment in executable
        if segment.offset - segment.offset % mmap.PAGESIZE == mapping.offset
    ]
    return list(dict.fromkeys(found))


def _dynamic_entries(file: BoundedFile, headers: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """Tag -> value of the dynamic section; the first entry of a tag counts. Empty for a static program."""
    for kind, _flags, offset, _address, _paddr, segment_bytes, _memsz, _align in headers:
        if kind != _PT_DYNAMIC:
            continue
        length = min(segment_bytes // 16, DYNAMIC_ENTRIES_MAX) * 16
        entries: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<QQ", file.read(offset, length)):
            if tag == _DT_NULL:
                break
            entries.setdefault(tag, value)
        return entries
    return {}


def _symbol_tables(dynamic: dict[int, int], segments: Iterable[LoadSegment]) -> SymbolTables | None:
    """None when nothing can be looked up: no symbols, no names, or no hash table."""

    def offset_of(tag: int) -> int | None:
        address = dynamic.get(tag)
        if address is None:
            return None
        offset = file_offset(segments, address)
        if offset is None:
            raise MalformedElf(f"dynamic entry {tag:#x} points to {address:#x}, which no segment holds")
        return offset

    symbols, strings = offset_of(_DT_SYMTAB), offset_of(_DT_STRTAB)
    if symbols is None or strings is None:
        return None
    return SymbolTables(
        symbols_offset=symbols,
        strings_offset=strings,
        strings_size_bytes=dynamic.get(_DT_STRSZ, 0),
        gnu_hash_offset=offset_of(_DT_GNU_HASH),
        sysv_hash_offset=offset_of(_DT_HASH),
        versions_offset=offset_of(_DT_VERSYM),
    )


def _soname(file: BoundedFile, dynamic: dict[int, int], tables: SymbolTables | None) -> str:
    name_offset = dynamic.get(_DT_SONAME)
    if name_offset is None or tables is None:
        return ""
    if name_offset >= tables.strings_size_bytes:
        raise MalformedElf("the soname lies outside of the string table")
    room = min(SONAME_BYTES_MAX, tables.strings_size_bytes - name_offset)
    name, terminator, _rest = file.read_up_to(tables.strings_offset + name_offset, room).partition(b"\0")
    if not terminator:
        raise MalformedElf(f"the soname does not end within {SONAME_BYTES_MAX} bytes")
    return printable_bytes(name, SONAME_BYTES_MAX)


def _build_id(file: BoundedFile, headers: Iterable[tuple[int, ...]]) -> str:
    """The first GNU build id among the notes. Broken notes are no reason to refuse a library: they end the search."""
    note_segments = [header for header in headers if header[0] == _PT_NOTE]
    for _kind, _flags, offset, _address, _paddr, segment_bytes, _memsz, align in note_segments[:NOTE_SEGMENTS_MAX]:
        notes = file.read_up_to(offset, min(segment_bytes, NOTE_SEGMENT_BYTES_MAX))
        build_id = _build_id_among(notes, padding=8 if align == 8 else 4)
        if build_id:
            return build_id
    return ""


def _build_id_among(notes: bytes, *, padding: int) -> str:
    """Before: 04000000 14000000 03000000 "GNU\\0" and 20 bytes. After: those 20 bytes in hexadecimal."""
    position = 0
    for _ in range(NOTES_MAX):
        if position + 12 > len(notes):
            break
        name_bytes, description_bytes, kind = struct.unpack_from("<III", notes, position)
        description = _padded(position + 12 + name_bytes, padding)
        end = description + description_bytes
        if end > len(notes):
            break
        is_build_id = kind == _NT_GNU_BUILD_ID and notes[position + 12 : position + 12 + name_bytes] == b"GNU\0"
        if is_build_id and 0 < description_bytes <= BUILD_ID_BYTES_MAX:
            return notes[description:end].hex()
        position = _padded(end, padding)
    return ""


def _padded(position: int, padding: int) -> int:
    return -(-position // padding) * padding
