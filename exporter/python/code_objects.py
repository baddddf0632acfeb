"""Code objects in a live interpreter: the file, the qualified name, and the line of each instruction.

In: the address of an object, as a frame has it, and the memory of its process. Out: a CodeObject, or None for what is none.
What was decoded is remembered, and used again only if the same bytes are still there: a function that is made again, such as by
exec(), often gets the addresses of an older one for all of its parts.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from exporter.errors import NotReadable
from exporter.python.layout import ABSENT, CodeLayout
from exporter.python.line_table import LINE_MAX, TABLE_BYTES_MAX, LineFormat, line_at
from exporter.python.memory import BoundedMemory, ReadMemory
from exporter.python.text_object import TextObject, text_object

READS_MAX: Final = 48
"""For one object; usually 4: its members, two names and the line table. The longest table takes 16 more."""
OBJECTS_MAX: Final = 8_192
BYTES_MAX: Final = 32 << 20
"""Size of the names and line tables that are remembered."""
COPIES_MAX: Final = 256
"""Copies of the instructions that are searched, in a free-threaded build: one for each thread."""
INSTRUCTIONS_BYTES_MAX: Final = 1 << 30
LINES_REMEMBERED_MAX: Final = 64
"""For one code object: threads are found at few of its instructions."""
_HASH_FACTOR, _HASH_MASK = 0x9E37_79B9_7F4A_7C15, (1 << 64) - 1
_TABLE_AT_ONCE: Final = 512
"""Bytes of a line table in the first read: most end within."""


@dataclass(frozen=True, slots=True)
class CodeObject:
    """file, qualified_name: printable; the second is without the class in 3.9 and 3.10. first_line: of `def` or a decorator.

    identity: a hash of CodeLayout.identity: another object that gets the address later has another one.
    """

    file: str
    qualified_name: str
    first_line: int
    identity: int
    _table: bytes = field(repr=False)
    _is_table_cut: bool = field(repr=False)
    _line_format: LineFormat = field(repr=False)
    _instruction_bytes: int = field(repr=False)
    _begins: Sequence[int] = field(repr=False)  # addresses of the instructions, and of copies of them; none before 3.11
    _instructions_bytes: int = field(repr=False)
    _lines: dict[int, int | None] = field(repr=False, compare=False, default_factory=dict)

    def line_of(self, instruction: int) -> int | None:
        """The line that runs. instruction: of a frame, as PythonLayout.frame_instruction has it, unsigned.

        None for an instruction that has no line, or that is none of this code object's. The table is read from its start: some
        milliseconds for the longest one, and once for each instruction that is remembered.
        """
        offset = self._offset(instruction)
        if offset is None:
            return None
        if offset not in self._lines:
            line = line_at(self._line_format, self._table, self.first_line, offset, is_cut=self._is_table_cut)
            if len(self._lines) >= LINES_REMEMBERED_MAX:
                self._lines.clear()
            self._lines[offset] = line
        return self._lines[offset]

    def bytes_to_read(self, instruction: int) -> int:
        """Size of the line table that line_of() reads at most; 0 if it remembers the line."""
        offset = self._offset(instruction)
        return 0 if offset is None or offset in self._lines else len(self._table)

    def _offset(self, instruction: int) -> int | None:
        """In bytes from the first instruction; -2 or -1 if the function has not begun."""
        if not self._begins:
            signed = instruction - (1 << 32) if instruction >> 31 == 1 else instruction
            return signed * self._instruction_bytes if -1 <= signed < INSTRUCTIONS_BYTES_MAX else None
        for begin in self._begins:
            if -2 <= instruction - begin < self._instructions_bytes:
                return instruction - begin
        return None


@dataclass(frozen=True, slots=True)
class _Remembered:
    """content: all that was read of an object."""

    content: tuple[bytes, ...]
    code: CodeObject

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.content))


class CodeObjects:
    """What is remembered of the objects of all processes. For one thread."""

    def __init__(self, objects_max: int = OBJECTS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._objects_max = objects_max
        self._bytes_max = bytes_max
        self._known: OrderedDict[tuple[Hashable, int], _Remembered] = OrderedDict()  # the one used last is the last one
        self._bytes = 0

    def at(self, process: Hashable, read: ReadMemory, layout: CodeLayout, address: int) -> CodeObject | None:
        """The code object at an address; None if there is none, or if it cannot be read.

        process: identifies it, also after its number has been used again, such as by (tgid, start_time_ticks).
        """
        try:
            content, names = _read(BoundedMemory(read, READS_MAX), layout, address)
        except NotReadable:
            return None
        key = process, address
        known = self._known.get(key)
        if known is not None and known.content == content:
            self._known.move_to_end(key)
            return known.code
        self._forget(key)
        if names is None:
            return None
        found = _Remembered(content, _decoded(layout, address, content, *names))
        self._known[key] = found
        self._bytes += found.size_bytes
        while len(self._known) > self._objects_max or self._bytes > self._bytes_max:
            self._forget(next(iter(self._known)))
        return found.code

    def _forget(self, key: tuple[Hashable, int]) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._bytes -= known.size_bytes


def _read(
    memory: BoundedMemory, layout: CodeLayout, address: int
) -> tuple[tuple[bytes, ...], tuple[TextObject, TextObject] | None]:
    """All that a code object is decoded from; without names if it is none. Raises NotReadable."""
    end = max(layout.object_type + 8, layout.units + 8, *(offset + size for offset, size in layout.members))
    head = memory.content(address, end)
    if _number(head, layout.object_type) != layout.code_type:
        return (), None
    file = text_object(memory, layout, _number(head, layout.file), keep_end=True)
    name = text_object(memory, layout, _number(head, layout.name))
    if file is None or name is None:
        return (), None
    table_length, table = _line_table(memory, layout, _number(head, layout.line_table))
    copies = _copies(memory, address + layout.copies) if layout.copies != ABSENT else b""
    members = b"".join(head[offset : offset + size] for offset, size in layout.members)
    identity_at, identity_bytes = layout.identity
    identity = head[identity_at : identity_at + identity_bytes]
    units = head[layout.units : layout.units + 8] if layout.units != ABSENT else b""
    return (members, identity, units, file.content, name.content, table_length, table, copies), (file, name)


def _line_table(memory: BoundedMemory, layout: CodeLayout, address: int) -> tuple[bytes, bytes]:
    """The length, as it is in memory, and as much of the table as is kept."""
    head = memory.up_to(address, layout.bytes_begin + _TABLE_AT_ONCE)
    if len(head) < layout.bytes_begin:
        raise NotReadable(f"the line table at {address:#x} is cut")
    length = head[layout.bytes_length : layout.bytes_length + 8]
    size = min(int.from_bytes(length, "little"), TABLE_BYTES_MAX)
    begin = layout.bytes_begin
    if begin + size <= len(head):
        return length, head[begin : begin + size]
    return length, memory.content(address + begin, size)


def _copies(memory: BoundedMemory, at: int) -> bytes:
    """Addresses of the copies of the instructions: behind a pointer, their number and then they themselves."""
    array = memory.word(at)
    if not array:
        return b""
    count = min(memory.word(array), COPIES_MAX)
    return memory.content(array + 8, 8 * count)


def _decoded(
    layout: CodeLayout, address: int, content: tuple[bytes, ...], file: TextObject, name: TextObject
) -> CodeObject:
    _, identity, units, _, _, table_length, table, copies = content
    first_line = _first_line(layout, content[0])
    begins = [address + layout.code_begin] if layout.code_begin != ABSENT else []
    begins += [begin for at in range(0, len(copies), 8) if (begin := _number(copies, at))]
    return CodeObject(
        file=file.text,
        qualified_name=name.text,
        first_line=first_line,
        identity=identity_of(identity),
        _table=table,
        _is_table_cut=int.from_bytes(table_length, "little") > len(table),
        _line_format=layout.line_format,
        _instruction_bytes=layout.instruction_bytes,
        _begins=tuple(dict.fromkeys(begins)),
        _instructions_bytes=min(2 * int.from_bytes(units, "little"), INSTRUCTIONS_BYTES_MAX),
    )


def identity_of(content: bytes) -> int:
    """A hash of words of 8 bytes, as python_identity() of bpf/lib/python.bpf.h makes it."""
    found = _HASH_FACTOR
    for (word,) in struct.iter_unpack("<Q", content):
        found = (found ^ word) * _HASH_FACTOR & _HASH_MASK
    return found


def _first_line(layout: CodeLayout, members: bytes) -> int:
    """co_firstlineno, an int: its place among the members that were read."""
    at = 0
    for offset, size in layout.members:
        if offset == layout.first_line:
            return min(int.from_bytes(members[at : at + size], "little"), LINE_MAX)
        at += size
    return 0


def _number(content: bytes, offset: int) -> int:
    return int.from_bytes(content[offset : offset + 8], "little")
