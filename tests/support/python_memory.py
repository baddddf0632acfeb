"""Memory of a real process, and memory that a test makes, as exporter/python reads it; and a walk as the kernel makes it."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Self

from exporter.errors import NotReadable
from exporter.python.layout import ABSENT, PythonLayout
from exporter.python.memory import PAGE_BYTES, READ_BYTES_MAX


class ProcessMemory:
    """Reads /proc/TGID/mem. reads: how many were made."""

    def __init__(self, tgid: int) -> None:
        self._fd = os.open(f"/proc/{tgid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self.reads = 0

    def __call__(self, address: int, size: int) -> bytes:
        assert 0 < size <= READ_BYTES_MAX
        self.reads += 1
        try:
            found = os.pread(self._fd, size, address)
        except (OSError, OverflowError) as error:
            raise NotReadable(f"{size} bytes at {address:#x}: {error}") from error
        if len(found) != size:
            raise NotReadable(f"{len(found)} of {size} bytes at {address:#x}")
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


class MadeMemory:
    """Pieces of memory at chosen addresses; what lies between them cannot be read. reads: how many were made."""

    def __init__(self) -> None:
        self.pieces: dict[int, bytearray] = {}
        self.reads = 0
        self._next = 0x10_0000

    def put(self, content: bytes, address: int | None = None) -> int:
        """Returns where it lies: at `address`, else in pages of its own. Zeros follow up to the end of the page."""
        if address is None:
            address = self._next
            self._next += (len(content) // PAGE_BYTES + 2) * PAGE_BYTES
        self.pieces[address] = bytearray(content + bytes(-(address + len(content)) % PAGE_BYTES))
        return address

    def set_word(self, address: int, value: int) -> None:
        start, piece = self._piece(address, 8)
        struct.pack_into("<Q", piece, address - start, value)

    def __call__(self, address: int, size: int) -> bytes:
        assert 0 < size <= READ_BYTES_MAX
        self.reads += 1
        start, piece = self._piece(address, size)
        return bytes(piece[address - start : address - start + size])

    def _piece(self, address: int, size: int) -> tuple[int, bytearray]:
        for start, piece in self.pieces.items():
            if start <= address and address + size <= start + len(piece):
                return start, piece
        raise NotReadable(f"{size} bytes at {address:#x}")


def threads(read: ProcessMemory, layout: PythonLayout) -> dict[int, int]:
    """Thread states by native thread id, or by pthread id where there is none; of the oldest interpreter that has one."""
    return dict(states(read, layout))


def states(read: ProcessMemory, layout: PythonLayout) -> list[tuple[int, int]]:
    """(thread id, thread state) of each in all interpreters, in the order of the lists."""
    found = []
    interpreter = _word(read, layout.runtime + layout.interpreters_head)
    while interpreter:
        thread = _word(read, interpreter + layout.interpreter_threads_head)
        while thread:
            id_at = layout.thread_id if layout.thread_native_id == ABSENT else layout.thread_native_id
            found.append((_word(read, thread + id_at), thread))
            thread = _word(read, thread + layout.thread_next)
        interpreter = _word(read, interpreter + layout.interpreter_next)
    return found


def frames(read: ProcessMemory, layout: PythonLayout, thread: int) -> list[tuple[int, int]]:
    """(address of the code object, instruction) of each frame of a thread state, the innermost first."""
    found = []
    frame = _word(read, thread + layout.thread_frame)
    if frame and layout.cframe_frame != ABSENT:
        frame = _word(read, frame + layout.cframe_frame)
    while frame:
        code = _word(read, frame + layout.frame_code) & ~layout.code_pointer_mask
        owner = read(frame + layout.frame_owner, 1)[0] if layout.frame_owner != ABSENT else 0
        is_python = layout.skip_owner_from == ABSENT or owner < layout.skip_owner_from
        if is_python and _word(read, code + layout.object_type) == layout.code_type:
            size = layout.frame_instruction_size
            found.append((code, int.from_bytes(read(frame + layout.frame_instruction, size), "little")))
        frame = _word(read, frame + layout.frame_previous)
    return found


def mapped_from(tgid: int, path: Path) -> list[str]:
    """Lines of the memory map that belong to a file."""
    return [line for line in Path(f"/proc/{tgid}/maps").read_text().splitlines() if line.endswith(str(path))]


def _word(read: ProcessMemory, address: int) -> int:
    return int.from_bytes(read(address, 8), "little")
