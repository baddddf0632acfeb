"""The memory of an interpreter, made byte by byte: one process, one thread, frames with code objects."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from exporter.python.debug_offsets import NAMES
from exporter.python.interpreter import Interpreter, InterpreterSymbols, interpreter_of
from exporter.python.layout import CodeLayout
from tests.support.python_memory import MadeMemory

MEMBERS_3_11: Final = {
    "co_firstlineno": 72,
    "co_filename": 112,
    "co_name": 120,
    "co_qualname": 128,
    "co_linetable": 136,
}
MEMBERS_3_12: Final = MEMBERS_3_11 | {"co_firstlineno": 68}
MEMBERS_3_10: Final = {"co_firstlineno": 40, "co_filename": 104, "co_name": 112, "co_linetable": 120}
MEMBERS_3_9: Final = {"co_firstlineno": 40, "co_filename": 104, "co_name": 112, "co_lnotab": 120}
T_INT, T_OBJECT = 1, 6
COMPACT_ASCII: Final = 1 << 2 | 1 << 5 | 1 << 6  # kind 1, compact, ascii, behind two bits
THREAD, FRAME, INSTRUCTION_AT = 4242, 0x77_0000, 0x55_0000


class MadeInterpreter:
    """An interpreter of a version; see symbols, code_type. head: bytes of an object's head, 32 in a free-threaded build."""

    def __init__(self, version: tuple[int, int], *, free_threaded: bool = False) -> None:
        self.memory = MadeMemory()
        self.version = version
        self.head = 32 if free_threaded else 16
        self.state_shift = 2 if version < (3, 14) else 16
        self.ascii_bytes = self.head + (24 if version >= (3, 12) else 32)
        members = {(3, 9): MEMBERS_3_9, (3, 10): MEMBERS_3_10, (3, 11): MEMBERS_3_11}.get(version, MEMBERS_3_12)
        self.members = {name: offset + self.head - 16 for name, offset in members.items()}
        self.code_bytes = 216 + self.head - 16
        self.code_type = self._type()
        self.runtime = self._runtime(free_threaded)
        self.interpreter, self.thread, self.frame, self.cframe = (self.memory.put(bytes(9000)) for _ in range(4))
        self.hexversion = self.memory.put(struct.pack("<Q", version[0] << 24 | version[1] << 16 | 0xF0))
        self.symbols = InterpreterSymbols(self.runtime, self.code_type, self.hexversion if version >= (3, 11) else 0)

    def text(self, text: str) -> int:
        """A compact str of ASCII."""
        state = COMPACT_ASCII >> 2 << self.state_shift
        head = bytes(self.head) + struct.pack("<QQQ", len(text), 0, state)
        return self.memory.put(head.ljust(self.ascii_bytes, b"\0") + text.encode("ascii") + b"\0")

    def content(self, content: bytes) -> int:
        """A bytes object."""
        return self.memory.put(bytes(self.head) + struct.pack("<QQ", len(content), 0) + content + b"\0")

    def code(self, file: int, name: int, first_line: int, table: bytes, units: int = 100) -> int:
        """A code object. file, name: texts. units: instructions of two bytes."""
        made = bytearray(self.code_bytes + 2 * units)
        struct.pack_into("<Q", made, self.head - 8, self.code_type)
        struct.pack_into("<Q", made, self.head, units)
        struct.pack_into("<I", made, self.members["co_firstlineno"], first_line)
        for member, value in (("co_filename", file), ("co_name", name), ("co_qualname", name)):
            if member in self.members:
                struct.pack_into("<Q", made, self.members[member], value)
        table_at = self.members["co_lnotab" if self.version < (3, 10) else "co_linetable"]
        struct.pack_into("<Q", made, table_at, self.content(table))
        return self.memory.put(bytes(made))

    def _type(self) -> int:
        rows = b""
        for name, offset in self.members.items():
            kind = T_INT if name == "co_firstlineno" else T_OBJECT
            rows += struct.pack("<Qi4xqi4xQ", self.memory.put(name.encode() + b"\0"), kind, offset, 1, 0)
        made = bytearray(self.head + 8 + 300)
        name_at = self.head + 8
        struct.pack_into("<QQ", made, name_at, self.memory.put(b"code\0"), self.code_bytes)
        struct.pack_into("<Q", made, name_at + 216, self.memory.put(rows + bytes(40)))
        return self.memory.put(bytes(made))

    def _runtime(self, free_threaded: bool) -> int:
        if self.version < (3, 13):
            return self.memory.put(bytes(256))
        offsets = {
            "runtime.interpreters_head": 1000,
            "interpreter.next": 7000,
            "interpreter.threads_head": 7100,
            "interpreter.imports_modules": 7656,
            "thread.size": 304,
            "thread.next": 8,
            "thread.interp": 16,
            "thread.current_frame": 72,
            "thread.thread_id": 152,
            "thread.native_thread_id": 160,
            "frame.previous": 8,
            "frame.executable": 0,
            "frame.instr_ptr": 56,
            "frame.localsplus": 80,
            "frame.owner": 74,
            "frame.stackpointer": 64,
            "object.size": self.head,
            "object.ob_type": self.head - 8,
            "type.tp_name": self.head + 8,
            "type.tp_flags": self.head + 152,
            "set.mask": self.head + 16,
            "set.table": self.head + 24,
            "long.lv_tag": self.head,
            "long.ob_digit": self.head + 8,
            "generator.frame": self.head + 56,
            "generator.frame_state": self.head + 51,
            "list_node.prev": 8,
            "bytes.ob_size": self.head,
            "bytes.ob_sval": self.head + 16,
            "text.state": self.head + 16,
            "text.length": self.head,
            "text.asciiobject_size": self.ascii_bytes,
            "code.filename": self.members["co_filename"],
            "code.qualname": self.members["co_qualname"],
            "code.linetable": self.members["co_linetable"],
            "code.firstlineno": self.members["co_firstlineno"],
            "code.co_code_adaptive": self.code_bytes,
            "code.co_tlbc": self.code_bytes - 8 if free_threaded else 0,
        }
        names = NAMES[self.version]
        self.offset_at = {name: 24 + 8 * place for place, name in enumerate(names)}
        head = b"xdebugpy" + struct.pack("<QQ", self.version[0] << 24 | self.version[1] << 16, free_threaded)
        made = head + b"".join(struct.pack("<Q", offsets.get(name, 0)) for name in names)
        return self.memory.put(made.ljust(1100, b"\0"))

    def link(self, codes: Sequence[int]) -> None:
        """The list of interpreters, one thread, and its frames, the innermost first. Not for 3.10 and 3.11."""
        head, threads, frame_at, native = {
            (3, 9): (32, 8, 24, 0),
            (3, 12): (40, 72, 56, 144),
            (3, 13): (1000, 7100, 72, 160),
            (3, 14): (1000, 7100, 72, 160),
        }[self.version]
        code_at, previous_at = (32, 24) if self.version == (3, 9) else (0, 8)
        self.first_code = codes[0] if codes else 0
        put = self.memory.set_word
        put(self.runtime + head, self.interpreter)
        put(self.interpreter + threads, self.thread)
        put(self.thread + 16, self.interpreter)
        if native:
            put(self.thread + native, THREAD)
        frames = [self.frame, *(self.memory.put(bytes(200)) for _ in codes[1:])]
        if self.version == (3, 12):
            put(self.thread + frame_at, self.cframe)
            put(self.cframe, self.frame if codes else 0)
        else:
            put(self.thread + frame_at, self.frame if codes else 0)
        for frame, code, previous in zip(frames, codes, [*frames[1:], 0], strict=False):
            put(frame + code_at, code)
            put(frame + previous_at, previous)


def layout_of(version: tuple[int, int], *, free_threaded: bool = False) -> CodeLayout:
    """How code objects of a made interpreter look."""
    return interpreter_layout(MadeInterpreter(version, free_threaded=free_threaded))


def interpreter_layout(made: MadeInterpreter) -> CodeLayout:
    """The layout that is found for it, with a thread outside of Python."""
    made.link([])
    found = interpreter_of(made.memory, made.symbols)
    assert isinstance(found, Interpreter), found
    return found.code
