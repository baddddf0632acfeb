"""Where the parts of an interpreter are in memory: what the kernel needs to walk frames, and what code objects look like.

In: the debug offsets of an interpreter (since 3.13), or its version (3.7 to 3.12), and the type of its code objects.
Out: a PythonLayout for the kernel, a CodeLayout for code_objects.py.
Source: Include/internal/pycore_runtime.h, pycore_interp.h, pycore_frame.h and Include/cpython/pystate.h of each version. The same
on x86-64 and arm64, where all these members have the same sizes and alignments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from exporter.python.code_type import CodeType
from exporter.python.debug_offsets import DebugOffsets
from exporter.python.line_table import LineFormat

IDENTITY_BYTES_MAX: Final = 96
"""The kernel reads so much of a code object, to notice a later one at its address."""

ABSENT: Final = -1
"""An offset of something that this interpreter does not have."""

Version = tuple[int, int]
"""Such as (3, 11). (3, 9) stands for 3.7 and 3.8 as well: what is read of them looks the same."""


class PythonLayout(NamedTuple):
    """What a walk of the frames of a thread needs. Offsets in bytes; runtime and code_type are addresses in the process.

    cframe_frame: thread_frame leads to a structure whose current frame is at this offset; ABSENT if it leads to the frame.
    thread_native_id: of the thread in its PID namespace (gettid); ABSENT in 3.9 and 3.10, which have thread_id (pthread_self).
    frame_instruction_size: 8 for a pointer, 4 for a number. frame_owner: of one byte; a frame is none of Python when the byte is
    skip_owner_from or more. frame_is_entry: of a byte, in 3.11 alone, that is set where the function of the interpreter began
    which runs the frame. thread_cframe: in 3.10 alone, of a list of these functions, each of which runs one frame.
    code_pointer_mask: bits that are cleared in a pointer to a code object.

    A thread that runs code of a subinterpreter has a state in each of them. The list begins with the newest one, whose frames are
    the innermost; a state that has no frame may be left over from an earlier run.
    """

    runtime: int
    code_type: int
    interpreters_head: int
    interpreter_next: int
    interpreter_threads_head: int
    thread_next: int
    thread_native_id: int
    thread_id: int
    thread_frame: int
    cframe_frame: int
    frame_code: int
    frame_previous: int
    frame_instruction: int
    frame_instruction_size: int
    frame_owner: int
    skip_owner_from: int
    frame_is_entry: int
    thread_cframe: int
    code_pointer_mask: int
    object_type: int


class CodeLayout(NamedTuple):
    """What a code object, a text and a bytes object look like. Offsets in bytes.

    identity: (offset, size) of the part of a code object from its first line to its line table, in words of 8 bytes: it does not
    change, and another object that gets the address later has other values there. Since 3.12 a number of the object is there.
    members: (offset, size) of what does not change in the life of a code object. name: of the qualified one, where there is one.
    code_begin: where instructions begin in the object. units: how many there are, of two bytes each. Both are ABSENT before 3.11:
    there a frame has a number instead of a pointer, to be multiplied by instruction_bytes. copies: of a pointer to an array of
    copies of the instructions, one for each thread; ABSENT but in free-threaded builds.
    text_ascii, text_other: where the characters begin in an ASCII text and in any other one.
    """

    code_type: int
    object_type: int
    members: tuple[tuple[int, int], ...]
    identity: tuple[int, int]
    file: int
    name: int
    first_line: int
    line_table: int
    line_format: LineFormat
    units: int
    code_begin: int
    instruction_bytes: int
    copies: int
    text_length: int
    text_state: int
    text_ascii: int
    text_other: int
    bytes_length: int
    bytes_begin: int


class ThreadParent(NamedTuple):
    """Where a thread state has the address of its interpreter: it proves that a thread state is one."""

    thread_interpreter: int


_OF_THREAD: Final = ThreadParent(thread_interpreter=16)  # behind prev and next, in 3.7 to 3.12


class _Row(NamedTuple):
    """One version without debug offsets; see PythonLayout."""

    interpreters_head: int
    threads_head: int
    native_id: int
    thread_id: int
    frame: int
    cframe: int
    code: int
    previous: int
    instruction: int
    instruction_size: int
    owner: int
    is_entry: int
    thread_cframe: int


_TABLE: Final[Mapping[Version, _Row]] = {
    (3, 9): _Row(32, 8, ABSENT, 176, 24, ABSENT, 32, 24, 104, 4, ABSENT, ABSENT, ABSENT),
    (3, 10): _Row(32, 8, ABSENT, 176, 24, ABSENT, 32, 24, 96, 4, ABSENT, ABSENT, 48),
    (3, 11): _Row(40, 16, 160, 152, 56, 8, 32, 48, 56, 8, 69, 68, ABSENT),
    (3, 12): _Row(40, 72, 144, 136, 56, 0, 0, 8, 56, 8, 70, ABSENT, ABSENT),
}
"""What interpreters of these versions do not have in memory. tests/contract/test_python_interpreters.py reads real ones by it."""

_NO_PYTHON_FRAME: Final = 3
"""The lowest owner of a frame that is none of Python: FRAME_OWNED_BY_CSTACK (3.12, 3.13), FRAME_OWNED_BY_INTERPRETER (3.14)."""
POINTER_TAGS: Final = 7
"""Since 3.14 a frame has a _PyStackRef, whose lowest bits say who counts the reference; objects are aligned to 8 at least."""


def oldest_layout(version: Version, runtime: int, code: CodeType) -> tuple[PythonLayout, ThreadParent] | None:
    """The layout of 3.7 to 3.12; None for another version."""
    row = _TABLE.get(version)
    if row is None:
        return None
    layout = PythonLayout(
        runtime=runtime,
        code_type=code.address,
        interpreters_head=row.interpreters_head,
        interpreter_next=0,
        interpreter_threads_head=row.threads_head,
        thread_next=8,
        thread_native_id=row.native_id,
        thread_id=row.thread_id,
        thread_frame=row.frame,
        cframe_frame=row.cframe,
        frame_code=row.code,
        frame_previous=row.previous,
        frame_instruction=row.instruction,
        frame_instruction_size=row.instruction_size,
        frame_owner=row.owner,
        skip_owner_from=ABSENT if row.owner == ABSENT else _NO_PYTHON_FRAME,
        frame_is_entry=row.is_entry,
        thread_cframe=row.thread_cframe,
        code_pointer_mask=0,
        object_type=8,
    )
    return layout, _OF_THREAD


def layout_by_offsets(offsets: DebugOffsets, runtime: int, code: CodeType) -> tuple[PythonLayout, ThreadParent]:
    """The layout of an interpreter that has debug offsets."""
    layout = PythonLayout(
        runtime=runtime,
        code_type=code.address,
        interpreters_head=offsets["runtime.interpreters_head"],
        interpreter_next=offsets["interpreter.next"],
        interpreter_threads_head=offsets["interpreter.threads_head"],
        thread_next=offsets["thread.next"],
        thread_native_id=offsets["thread.native_thread_id"],
        thread_id=offsets["thread.thread_id"],
        thread_frame=offsets["thread.current_frame"],
        cframe_frame=ABSENT,
        frame_code=offsets["frame.executable"],
        frame_previous=offsets["frame.previous"],
        frame_instruction=offsets["frame.instr_ptr"],
        frame_instruction_size=8,
        frame_owner=offsets["frame.owner"],
        skip_owner_from=_NO_PYTHON_FRAME,
        frame_is_entry=ABSENT,
        thread_cframe=ABSENT,
        code_pointer_mask=POINTER_TAGS if offsets.version >= (3, 14) else 0,
        object_type=offsets["object.ob_type"],
    )
    return layout, ThreadParent(offsets["thread.interp"])


def code_layout(version: Version, code: CodeType, offsets: DebugOffsets | None) -> CodeLayout:
    """The layout of code objects, texts and bytes. offsets: since 3.13."""
    has_address = version >= (3, 11)
    ascii_bytes = offsets["text.asciiobject_size"] if offsets else 40 if version >= (3, 12) else 48
    head_bytes = offsets["object.size"] if offsets else 16
    line_table = code.offset("co_linetable" if version >= (3, 10) else "co_lnotab")
    identity_at = code.offset("co_firstlineno") & ~7
    has_copies = offsets is not None and offsets.is_free_threaded and version >= (3, 14)
    return CodeLayout(
        code_type=code.address,
        object_type=offsets["object.ob_type"] if offsets else 8,
        members=tuple(sorted(code.members.values())),
        identity=(identity_at, line_table + 8 - identity_at),
        file=code.offset("co_filename"),
        name=code.offset("co_qualname" if has_address else "co_name"),
        first_line=code.offset("co_firstlineno"),
        line_table=line_table,
        line_format=_line_format(version),
        units=head_bytes if has_address else ABSENT,
        code_begin=code.object_bytes if has_address else ABSENT,
        instruction_bytes=2 if version == (3, 10) else 1,
        copies=offsets["code.co_tlbc"] if offsets and has_copies else ABSENT,
        text_length=offsets["text.length"] if offsets else head_bytes,
        text_state=offsets["text.state"] if offsets else head_bytes + 16,  # behind the length and the hash
        text_ascii=ascii_bytes,
        # The length and the address of a copy in UTF-8 follow, and before 3.12 the length of one in wchar_t.
        text_other=ascii_bytes + (16 if version >= (3, 12) else 24),
        bytes_length=offsets["bytes.ob_size"] if offsets else head_bytes,
        bytes_begin=offsets["bytes.ob_sval"] if offsets else head_bytes + 16,  # behind the length and the hash
    )


def _line_format(version: Version) -> LineFormat:
    if version >= (3, 11):
        return LineFormat.LOCATIONS
    return LineFormat.RANGES if version == (3, 10) else LineFormat.INCREMENTS
