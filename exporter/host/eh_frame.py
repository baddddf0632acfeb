"""Rules for unwinding a stack, which compilers write into .eh_frame for exceptions.

In: a process and an address in it. Out: a Rule, for x86-64; None without rules, as for code generated at run time, and for rules
that are not understood. The files belong to the process that is watched: every read is bounded.
Source: DWARF 5, section 6.4; the Linux Standard Base on .eh_frame and .eh_frame_hdr; System V ABI for x86-64, section 3.6.2.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from exporter.errors import ExporterError, MalformedElf
from exporter.files import content
from exporter.host.bounded_file import BoundedFile
from exporter.host.elf import ElfFile, LoadSegment, file_offset, read_elf
from exporter.host.libraries import open_library
from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import Processes

RBP: Final = 6
RSP: Final = 7
_RETURN_ADDRESS: Final = 16
"""Register numbers of DWARF."""

READS_PER_ADDRESS_MAX: Final = 64
FILES_MAX: Final = 64
RECORD_BYTES_MAX: Final = 16 * 1024
STATES_KEPT_MAX: Final = 64

_INDEX_ENCODINGS: Final = (
    b"\x01\x1b\x03\x3b"  # version; pointer to .eh_frame, count and table as every linker writes them
)
_INDEX_HEAD: Final = struct.Struct("<4siI")  # the encodings, pointer, count
_INDEX_ENTRY: Final = struct.Struct(
    "<ii"
)  # start of a function and its record, both relative to the start of the index
_SIZE_OF_ENCODING: Final = {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}


class Rule(NamedTuple):
    """The frame ends at the register's value + cfa_offset; the return address lies below that end.

    cfa_register: RSP or RBP. frame_pointer_at: offset from the end to the caller's saved rbp; None: it is still in rbp.
    """

    cfa_register: int
    cfa_offset: int
    frame_pointer_at: int | None


OUTERMOST: Final = Rule(0, 0, None)
"""The function has no caller, or its rules lead nowhere."""


class FrameRules:
    """Rules of one process. A context manager, which holds files open. A process that has ended has no rules."""

    def __init__(self, processes: Processes, tgid: int) -> None:
        self._processes = processes
        self._tgid = tgid
        self._mapped: list[Mapping] = []
        self._files: dict[tuple[int, int, bytes], ElfFile | None] = {}

    def __enter__(self) -> Self:
        try:
            self._mapped = list(parse_executable_mappings(self._processes.maps(self._tgid)))  # ascending
        except ExporterError:
            self._mapped = []
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            if file is not None:
                content.close(file.fd)
        self._files.clear()

    def at(self, address: int) -> Rule | None:
        """OUTERMOST when there is no caller; None without a rule."""
        at = bisect_right(self._mapped, address, key=lambda one: one.start) - 1
        if at < 0 or address >= self._mapped[at].end:
            return None
        mapping = self._mapped[at]
        file = self._opened(mapping)
        if file is None:
            return None
        try:
            return rule_in(file, address - mapping.start + mapping.offset)
        except MalformedElf:
            return None

    def _opened(self, mapping: Mapping) -> ElfFile | None:
        key = (mapping.device, mapping.inode, mapping.path)
        if key not in self._files and len(self._files) < FILES_MAX:
            self._files[key] = self._open(mapping)
        return self._files.get(key)

    def _open(self, mapping: Mapping) -> ElfFile | None:
        try:
            fd = open_library(self._processes, self._tgid, mapping)
        except ExporterError:
            return None
        try:
            return read_elf(fd)
        except MalformedElf:
            content.close(fd)
            return None


def rule_in(file: ElfFile, offset: int) -> Rule | None:
    """The rule of the instruction at an offset of the file. Raises MalformedElf for broken rules."""
    segment = next((one for one in file.segments if 0 <= offset - one.offset < one.size_bytes), None)
    if file.machine != "x86_64" or file.frame_index is None or segment is None:
        return None
    target = offset - segment.offset + segment.address
    reader = BoundedFile(file.fd, file.size_bytes, reads_left=READS_PER_ADDRESS_MAX)
    record = _record_of(reader, file.frame_index, target)
    if record is None:
        return None
    start, record_address = record
    return _Function.read(reader, file.segments, record_address, start).rule_at(target)


def _record_of(reader: BoundedFile, index: LoadSegment, target: int) -> tuple[int, int] | None:
    """Start of the function that the address may be in, and address of its record; by bisection."""
    encodings, _, count = _INDEX_HEAD.unpack(reader.read(index.offset, _INDEX_HEAD.size))
    if encodings != _INDEX_ENCODINGS:
        return None
    low, high = 0, min(count, (index.size_bytes - _INDEX_HEAD.size) // _INDEX_ENTRY.size)
    found = None
    while low < high:
        middle = (low + high) // 2
        at = index.offset + _INDEX_HEAD.size + middle * _INDEX_ENTRY.size
        start, record = _INDEX_ENTRY.unpack(reader.read(at, _INDEX_ENTRY.size))
        if index.address + start <= target:
            found, low = (index.address + start, index.address + record), middle + 1
        else:
            high = middle
    return found


class _Bytes:
    """Reads numbers from a record, in order."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._raw)

    def unsigned(self, size_bytes: int) -> int:
        return int.from_bytes(self.piece(size_bytes), "little")

    def piece(self, size_bytes: int) -> bytes:
        piece = self._raw[self._at : self._at + size_bytes]
        if len(piece) != size_bytes:
            raise MalformedElf("a rule ends early")
        self._at += size_bytes
        return piece

    def rest(self) -> bytes:
        return self._raw[self._at :]

    def text(self) -> bytes:
        end = self._raw.find(b"\0", self._at)
        if end < 0:
            raise MalformedElf("a rule has a text without an end")
        return self.piece(end - self._at + 1)[:-1]

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.unsigned(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value
            if shift > 63:
                raise MalformedElf("a number of a rule does not end")

    def sleb(self) -> int:
        before = self._at
        value = self.uleb()
        bits = 7 * (self._at - before)
        return value - (1 << bits) if value >> (bits - 1) else value


@dataclass(slots=True)
class _State:
    """Rules at one address. saved: register -> offset from the frame's end to its saved value; None: it is lost."""

    cfa_register: int = 0  # 0: not known
    cfa_offset: int = 0
    saved: dict[int, int | None] = field(default_factory=dict)

    def copy(self) -> _State:
        return replace(self, saved=dict(self.saved))


@dataclass(slots=True)
class _Function:
    """The record of a function (FDE) and the one that it shares with others (CIE)."""

    start: int
    size_bytes: int
    code_alignment: int
    data_alignment: int
    common: bytes
    own: bytes

    @classmethod
    def read(cls, reader: BoundedFile, segments: tuple[LoadSegment, ...], address: int, start: int) -> _Function:
        at = file_offset(segments, address)
        if at is None:
            raise MalformedElf("a rule lies outside of the file")
        own = _Bytes(_record(reader, at))
        back = own.unsigned(4)
        shared = _Bytes(_record(reader, at + 4 - back))
        if shared.unsigned(4) != 0:
            raise MalformedElf("a rule leads to none that is shared")
        version, augmentation = shared.unsigned(1), shared.text()
        code_alignment, data_alignment = shared.uleb(), shared.sleb()
        column = shared.unsigned(1) if version == 1 else shared.uleb()
        if column != _RETURN_ADDRESS or not augmentation.startswith(b"z"):
            raise MalformedElf("rules of another kind")
        size_of_address = _size_of_address(augmentation, _Bytes(shared.piece(shared.uleb())))
        own.piece(size_of_address)
        size_bytes = own.unsigned(size_of_address)
        own.piece(own.uleb())
        return cls(start, size_bytes, code_alignment, data_alignment, shared.rest(), own.rest())

    def rule_at(self, target: int) -> Rule | None:
        """None beyond the end of the function: code there has no rules."""
        if target >= self.start + self.size_bytes:
            return None
        state = _State()
        self._run(self.common, state, None, _State())
        self._run(self.own, state, target, state.copy())
        if state.cfa_register not in (RSP, RBP) or state.saved.get(_RETURN_ADDRESS) != -8:
            return OUTERMOST
        return Rule(state.cfa_register, state.cfa_offset, state.saved.get(RBP))

    def _run(self, program: bytes, state: _State, target: int | None, initial: _State) -> None:
        """Run the program up to the target address."""
        code = _Bytes(program)
        kept: list[_State] = []
        location = self.start
        while not code.is_over:
            operation = code.unsigned(1)
            high, low = operation & 0xC0, operation & 0x3F
            if high == 0x40 or operation in (2, 3, 4):
                step = low if high else code.unsigned({2: 1, 3: 2, 4: 4}[operation])
                location += step * self.code_alignment
                if target is not None and location > target:
                    return
            elif operation == 0x0A:  # remember_state
                if len(kept) >= STATES_KEPT_MAX:
                    raise MalformedElf("rules keep too many states")
                kept.append(state.copy())
            elif operation == 0x0B:  # restore_state
                if not kept:
                    raise MalformedElf("rules go back to a state that was not kept")
                last = kept.pop()
                state.cfa_register, state.cfa_offset, state.saved = last.cfa_register, last.cfa_offset, last.saved
            else:
                self._apply(operation, code, state, initial)

    def _apply(self, operation: int, code: _Bytes, state: _State, initial: _State) -> None:  # noqa: PLR0912 - DWARF's list
        high, low = operation & 0xC0, operation & 0x3F
        if high == 0x80:  # offset
            state.saved[low] = code.uleb() * self.data_alignment
        elif high == 0xC0 or operation == 0x06:  # restore, restore_extended
            _restore(low if high else code.uleb(), state, initial)
        elif operation == 0x00:  # nop
            pass
        elif operation == 0x05:  # offset_extended
            state.saved[code.uleb()] = code.uleb() * self.data_alignment
        elif operation == 0x11:  # offset_extended_sf
            state.saved[code.uleb()] = code.sleb() * self.data_alignment
        elif operation == 0x08:  # same_value
            state.saved.pop(code.uleb(), None)
        elif operation == 0x07:  # undefined
            state.saved[code.uleb()] = None
        elif operation in (0x09, 0x14):  # register, val_offset
            state.saved[code.uleb()] = None
            code.uleb()
        elif operation == 0x15:  # val_offset_sf
            state.saved[code.uleb()] = None
            code.sleb()
        elif operation in (0x10, 0x16):  # expression, val_expression
            state.saved[code.uleb()] = None
            code.piece(code.uleb())
        elif operation == 0x0C:  # def_cfa
            state.cfa_register, state.cfa_offset = code.uleb(), code.uleb()
        elif operation == 0x12:  # def_cfa_sf
            state.cfa_register, state.cfa_offset = code.uleb(), code.sleb() * self.data_alignment
        elif operation == 0x0D:  # def_cfa_register
            state.cfa_register = code.uleb()
        elif operation == 0x0E:  # def_cfa_offset
            state.cfa_offset = code.uleb()
        elif operation == 0x13:  # def_cfa_offset_sf
            state.cfa_offset = code.sleb() * self.data_alignment
        elif operation == 0x0F:  # def_cfa_expression
            state.cfa_register = 0
            code.piece(code.uleb())
        elif operation == 0x2E:  # GNU_args_size
            code.uleb()
        else:
            raise MalformedElf(f"a rule has the unknown operation {operation:#x}")


def _restore(register: int, state: _State, initial: _State) -> None:
    if register in initial.saved:
        state.saved[register] = initial.saved[register]
    else:
        state.saved.pop(register, None)


def _record(reader: BoundedFile, at: int) -> bytes:
    """The record at an offset of the file, without its length."""
    length = int.from_bytes(reader.read(at, 4), "little")
    if not 4 <= length <= RECORD_BYTES_MAX:
        raise MalformedElf(f"a rule of {length} bytes")
    return reader.read(at + 4, length)


def _size_of_address(augmentation: bytes, data: _Bytes) -> int:
    """Bytes of an address in the records of functions, from the augmentation of the shared one."""
    encoding = 0
    for letter in augmentation[1:]:
        if letter == ord("R"):
            encoding = data.unsigned(1)
        elif letter == ord("L"):
            data.unsigned(1)
        elif letter == ord("P"):
            data.piece(_size_of(data.unsigned(1)))
    return _size_of(encoding)


def _size_of(encoding: int) -> int:
    size = _SIZE_OF_ENCODING.get(encoding & 0x0F)
    if size is None:
        raise MalformedElf(f"a rule has addresses of the unknown form {encoding:#x}")
    return size
