"""The type of code objects in a live interpreter: it names the members of its objects itself, with their offsets.

In: the memory of a process, the address of PyCode_Type. Out: a CodeType, or None if there is no such type.
Source, the same in every version: struct _typeobject in Include/cpython/object.h, struct PyMemberDef in Include/descrobject.h
(Include/structmember.h before 3.12).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from exporter.python.memory import BoundedMemory

NAME: Final = b"code"
OBJECT_BYTES_MAX: Final = 1024
MEMBERS_MAX: Final = 48
_MEMBER: Final = struct.Struct("<Qi4xqi4xQ")  # PyMemberDef: name, type, offset, flags, doc
_MEMBER_NAME_BYTES_MAX: Final = 32
_SIZES: Final = {1: 4, 6: 8, 16: 8}  # T_INT, T_OBJECT, T_OBJECT_EX
_BASIC_SIZE_AT, _MEMBERS_AT = 8, 216  # from tp_name: tp_basicsize, tp_members


class CodeType(NamedTuple):
    """members: (offset, size) by name. object_bytes: size of an object without its instructions."""

    address: int
    object_bytes: int
    members: Mapping[str, tuple[int, int]]

    def has(self, *names: str) -> bool:
        return all(name in self.members for name in names)

    def offset(self, name: str) -> int:
        """Raises KeyError."""
        return self.members[name][0]


def code_type(memory: BoundedMemory, address: int, name_at: int) -> CodeType | None:
    """name_at: offset of tp_name in a type. Raises NotReadable."""
    if memory.c_string(memory.word(address + name_at), len(NAME) + 1) != NAME:
        return None
    object_bytes = memory.word(address + name_at + _BASIC_SIZE_AT)
    if not 0 < object_bytes <= OBJECT_BYTES_MAX:
        return None
    members = _members(memory, memory.word(address + name_at + _MEMBERS_AT), object_bytes)
    return CodeType(address, object_bytes, members)


def _members(memory: BoundedMemory, at: int, object_bytes: int) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for number in range(MEMBERS_MAX):
        name_at, kind, offset, _, _ = _MEMBER.unpack(memory.content(at + number * _MEMBER.size, _MEMBER.size))
        if not name_at:
            break
        size = _SIZES.get(kind, 0)
        if size and 0 < offset <= object_bytes - size:
            found[memory.c_string(name_at, _MEMBER_NAME_BYTES_MAX).decode("ascii", "replace")] = offset, size
    return found
