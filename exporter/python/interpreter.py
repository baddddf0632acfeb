"""Whether an interpreter in a live process can be read, and by which layout.

In: the addresses of its variables, the memory of the process. Out: an Interpreter, or a Refusal. Nothing is believed that the
memory does not prove: the list of interpreters leads to thread states, whose frames lead to objects of the type PyCode_Type.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final, NamedTuple

from exporter.errors import NotReadable
from exporter.python.code_type import CodeType, code_type
from exporter.python.debug_offsets import DebugOffsets, debug_offsets
from exporter.python.layout import (
    ABSENT,
    IDENTITY_BYTES_MAX,
    CodeLayout,
    PythonLayout,
    ThreadParent,
    Version,
    code_layout,
    layout_by_offsets,
    oldest_layout,
)
from exporter.python.memory import BoundedMemory, ReadMemory

READS_MAX: Final = 4_096
INTERPRETERS_MAX: Final = 8
THREADS_MAX: Final = 32
"""Threads of an interpreter that are looked at: enough that one of them is at rest."""
FRAMES_MAX: Final = 4
"""The innermost frames of a thread, of which one belongs to Python."""
_LONGEST_ID: Final = 1 << 22  # pid_max on 64-bit machines
_OFFSET_MAX: Final = (1 << 16) - 2
_MEMBERS: Final = ("co_filename", "co_name", "co_firstlineno")
"""Members of code objects that are read in every version."""
_NAME_BEHIND_TYPE: Final = 16  # tp_name, behind ob_type and ob_size
_TYPE_NAME_AT: Final = 24  # tp_name in a build with a global lock


class InterpreterSymbols(NamedTuple):
    """Addresses in the process; 0 for a symbol that the file does not have."""

    runtime: int  # _PyRuntime
    code_type: int  # PyCode_Type
    version: int  # Py_Version, since 3.11


class Refusal(enum.Enum):
    """Why frames of an interpreter are not read."""

    SYMBOLS = "symbols"  # the file does not have _PyRuntime or PyCode_Type
    UNREADABLE = "unreadable"  # memory that must be there cannot be read, or leads nowhere
    VERSION = "version"  # newer than 3.14, or none
    CODE_TYPE = "code_type"  # the type of code objects is not what it is in any version
    NOT_STARTED = "not_started"  # it has no interpreter yet, or no more
    THREADS = "threads"  # the list of interpreters does not lead to thread states
    FRAMES = "frames"  # no thread state leads to a frame with a code object, although some have frames


class Interpreter(NamedTuple):
    """version: such as (3, 11). offsets: since 3.13."""

    version: Version
    is_free_threaded: bool
    layout: PythonLayout
    code: CodeLayout
    offsets: DebugOffsets | None = None


def interpreter_of(read: ReadMemory, symbols: InterpreterSymbols) -> Interpreter | Refusal:
    """The layout of an interpreter, proved by what is in memory now; a few hundred reads, READS_MAX at most.

    A process that runs changes while it is read: UNREADABLE, NOT_STARTED, THREADS and FRAMES may pass, the others do not.
    """
    if not symbols.runtime or not symbols.code_type:
        return Refusal.SYMBOLS
    memory = BoundedMemory(read, READS_MAX)
    try:
        found = _proved(memory, symbols)
        if isinstance(found, _OtherType):
            found = _proved(memory, symbols._replace(code_type=found.address))
    except NotReadable:
        return Refusal.UNREADABLE
    return Refusal.FRAMES if isinstance(found, _OtherType) else found


class _OtherType(NamedTuple):
    """Another type named `code`, which the objects of frames have.

    A program that is linked to libpython and names PyCode_Type may have a copy of it, which libpython then uses, and not its own.
    """

    address: int


def _proved(memory: BoundedMemory, symbols: InterpreterSymbols) -> Interpreter | Refusal | _OtherType:
    found = _by_version(memory, symbols)
    if isinstance(found, Refusal):
        return found
    interpreter, parent = found
    layout = interpreter.layout
    if not _fits(layout, interpreter.code):
        return Refusal.UNREADABLE
    first = memory.word(layout.runtime + layout.interpreters_head)
    if not first:
        return Refusal.NOT_STARTED
    proof = _proof(memory, layout, parent, first)
    return interpreter if proof is None else proof


def _fits(layout: PythonLayout, code: CodeLayout) -> bool:
    """Whether the kernel can use it: it has 16 bits for an offset, and reads so much of a code object, in whole words."""
    _, identity_bytes = code.identity
    return max(layout[2:]) <= _OFFSET_MAX and identity_bytes in range(8, IDENTITY_BYTES_MAX + 1, 8)


def _by_version(memory: BoundedMemory, symbols: InterpreterSymbols) -> tuple[Interpreter, ThreadParent] | Refusal:
    """What an interpreter of this version should look like."""
    offsets = debug_offsets(memory, symbols.runtime)
    if isinstance(offsets, tuple):
        return Refusal.VERSION
    code = code_type(memory, symbols.code_type, offsets["type.tp_name"] if offsets else _TYPE_NAME_AT)
    if code is None or not code.has(*_MEMBERS):
        return Refusal.CODE_TYPE
    version = offsets.version if offsets else _version(memory, symbols, code)
    found = (
        layout_by_offsets(offsets, symbols.runtime, code) if offsets else oldest_layout(version, symbols.runtime, code)
    )
    if found is None:
        return Refusal.VERSION
    if not code.has(*_members_since(version)) or (offsets and not _agree(offsets, code)):
        return Refusal.CODE_TYPE
    layout, parent = found
    is_free_threaded = offsets is not None and offsets.is_free_threaded
    return Interpreter(version, is_free_threaded, layout, code_layout(version, code, offsets), offsets), parent


def _version(memory: BoundedMemory, symbols: InterpreterSymbols, code: CodeType) -> Version:
    """The version of an interpreter without debug offsets: as Py_Version says, else by what its code objects have."""
    if symbols.version:
        number = memory.word(symbols.version)
        return number >> 24 & 0xFF, number >> 16 & 0xFF
    if not code.has("co_linetable"):
        return 3, 9
    if not code.has("co_qualname"):
        return 3, 10
    # In 3.12 two counters of 16 bits before it are gone: co_warmup, _co_linearray_entry_size.
    return (3, 11) if code.offset("co_firstlineno") == 72 else (3, 12)


def _members_since(version: Version) -> tuple[str, ...]:
    """What code objects of a version have besides _MEMBERS."""
    if version >= (3, 11):
        return "co_linetable", "co_qualname"
    return ("co_linetable",) if version == (3, 10) else ("co_lnotab",)


def _agree(offsets: DebugOffsets, code: CodeType) -> bool:
    """Whether both sources say the same about code objects."""
    return (
        offsets["code.filename"] == code.offset("co_filename")
        and offsets["code.qualname"] == code.offset("co_qualname")
        and offsets["code.linetable"] == code.offset("co_linetable")
        and offsets["code.firstlineno"] == code.offset("co_firstlineno")
        and offsets["code.co_code_adaptive"] == code.object_bytes
    )


def _proof(
    memory: BoundedMemory, layout: PythonLayout, parent: ThreadParent, first: int
) -> Refusal | _OtherType | None:
    """None if the list of interpreters leads to code objects; or to threads that all are outside of Python now."""
    has_thread = has_frame = False
    for interpreter in _chain(memory, first, layout.interpreter_next, INTERPRETERS_MAX):
        head = memory.word(interpreter + layout.interpreter_threads_head)
        for thread in _chain(memory, head, layout.thread_next, THREADS_MAX):
            if memory.word(thread + parent.thread_interpreter) != interpreter or not _has_plausible_id(
                memory, layout, thread
            ):
                return Refusal.THREADS
            has_thread = True
            for kind in _types_in_frames(memory, layout, thread):
                if kind == layout.code_type:
                    return None
                if _is_type_of_code(memory, layout, kind):
                    return _OtherType(kind)
                has_frame = True
    if not has_thread:
        return Refusal.THREADS
    return Refusal.FRAMES if has_frame else None


def _chain(memory: BoundedMemory, first: int, next_at: int, count_max: int) -> Iterator[int]:
    """The structures of a linked list; it may be a loop, or change while it is followed."""
    at = first
    for _ in range(count_max):
        if not at:
            return
        yield at
        at = memory.word(at + next_at)


def _has_plausible_id(memory: BoundedMemory, layout: PythonLayout, thread: int) -> bool:
    """A thread that has been made but has not begun has the id 0."""
    if layout.thread_native_id == ABSENT:
        return True
    return memory.word(thread + layout.thread_native_id) <= _LONGEST_ID


def _types_in_frames(memory: BoundedMemory, layout: PythonLayout, thread: int) -> Iterator[int]:
    """Types of the objects that the innermost frames of a thread have for code; 0 for a frame that cannot be read."""
    try:
        frame = memory.word(thread + layout.thread_frame)
        if frame and layout.cframe_frame != ABSENT:
            frame = memory.word(frame + layout.cframe_frame)
        for one in _chain(memory, frame, layout.frame_previous, FRAMES_MAX):
            code = memory.word(one + layout.frame_code) & ~layout.code_pointer_mask
            yield memory.word(code + layout.object_type) if code else 0
    except NotReadable:  # the thread has left the frame in the middle of this
        yield 0


def _is_type_of_code(memory: BoundedMemory, layout: PythonLayout, address: int) -> bool:
    try:
        return code_type(memory, address, layout.object_type + _NAME_BEHIND_TYPE) is not None
    except NotReadable:
        return False
