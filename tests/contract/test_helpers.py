"""Kernel helpers that the programs call: those of the oldest supported kernel, unless the program does without on older ones."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.checks.kernel import OLDEST
from exporter.kernel.loader import OBJECTS_DIR

LAST_OF_OLDEST = {(5, 15): 175}
"""Kernel -> its newest helper: BPF_FUNC_* of include/uapi/linux/bpf.h, which are numbered in the order they came."""
BPF_LOOP, FIND_VMA, COPY_FROM_USER_TASK = 181, 180, 191
NEWER = {
    "cuda.bpf.o": {BPF_LOOP},  # where HAS_BPF_LOOP
    "cuda_session.bpf.o": {BPF_LOOP},  # a kernel with sessions has it
    "nccl.bpf.o": {BPF_LOOP},  # where HAS_BPF_LOOP
    "nccl_session.bpf.o": {BPF_LOOP},
    "stacks.bpf.o": {BPF_LOOP, FIND_VMA, COPY_FROM_USER_TASK},  # without it, chains have no stacks
    "python.bpf.o": {BPF_LOOP, COPY_FROM_USER_TASK},  # without it, no lines of Python
}
"""Object -> later helpers that it calls where they exist, or without which the exporter goes on."""
_PROGRAM_BYTES, _IS_EXECUTABLE = 1, 4  # SHT_PROGBITS, SHF_EXECINSTR
_CALL = 0x85
_HEADER, _INSTRUCTION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<BBhi")


def _helpers(path: Path) -> Iterator[int]:
    """Numbers of the helpers that are called. Calls of other functions have a source register."""
    image = path.read_bytes()
    (table,), (headers,) = struct.unpack_from("<Q", image, 40), struct.unpack_from("<H", image, 60)
    for number in range(headers):
        _name, kind, flags, _address, offset, size, *_rest = _HEADER.unpack_from(image, table + _HEADER.size * number)
        if kind == _PROGRAM_BYTES and flags & _IS_EXECUTABLE:
            for code, registers, _jump, value in _INSTRUCTION.iter_unpack(image[offset : offset + size]):
                if code == _CALL and registers >> 4 == 0:
                    yield value


@pytest.mark.parametrize("path", sorted(OBJECTS_DIR.glob("*.bpf.o")), ids=lambda path: path.name)
def test_helpers_are_those_of_the_oldest_kernel(path: Path) -> None:
    newer = {helper for helper in _helpers(path) if helper > LAST_OF_OLDEST[OLDEST]}

    assert newer == NEWER.get(path.name, set())
