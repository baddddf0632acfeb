"""python.code_type: the members of code objects, as their type names them."""

from __future__ import annotations

import struct

import pytest

from exporter.errors import NotReadable
from exporter.python.code_type import MEMBERS_MAX, CodeType, code_type
from exporter.python.memory import BoundedMemory
from tests.support.python_memory import MadeMemory

NAME_AT = 24
T_INT, T_OBJECT, T_OBJECT_EX, T_STRING = 1, 6, 16, 5


def found(rows: list[tuple[str, int, int]], object_bytes: int = 200, name: bytes = b"code\0") -> CodeType | None:
    """The type with these members: name, kind, offset."""
    memory = MadeMemory()
    content = b"".join(
        struct.pack("<Qi4xqi4xQ", memory.put(one.encode() + b"\0"), kind, offset, 1, 0) for one, kind, offset in rows
    )
    made = bytearray(300)
    struct.pack_into("<QQ", made, NAME_AT, memory.put(name), object_bytes)
    struct.pack_into("<Q", made, NAME_AT + 216, memory.put(content + bytes(40)))
    return code_type(BoundedMemory(memory, 1000), memory.put(bytes(made)), NAME_AT)


class TestMembers:
    def test_members_have_offset_and_size(self) -> None:
        """An int has 4 bytes, an object 8."""
        kind = found([("co_firstlineno", T_INT, 68), ("co_filename", T_OBJECT, 112), ("co_name", T_OBJECT_EX, 120)])

        assert kind is not None
        assert kind.members == {"co_firstlineno": (68, 4), "co_filename": (112, 8), "co_name": (120, 8)}
        assert (kind.object_bytes, kind.has("co_name", "co_filename"), kind.has("co_name", "co_lnotab")) == (
            200,
            True,
            False,
        )

    @pytest.mark.parametrize(("kind", "offset"), [(T_STRING, 112), (T_OBJECT, 0), (T_OBJECT, -8), (T_OBJECT, 193)])
    def test_member_of_another_kind_or_outside_is_left_out(self, kind: int, offset: int) -> None:
        """An object has 200 bytes."""
        made = found([("co_filename", kind, offset), ("co_name", T_OBJECT, 120)])

        assert made is not None
        assert list(made.members) == ["co_name"]

    def test_list_without_an_end_is_bounded(self) -> None:
        made = found([(f"co_{number}", T_INT, 16) for number in range(MEMBERS_MAX + 20)])

        assert made is not None
        assert len(made.members) == MEMBERS_MAX


class TestNone:
    @pytest.mark.parametrize("name", [b"cod\0e", b"\0"])
    def test_type_of_another_name(self, name: bytes) -> None:
        assert found([], name=name) is None

    def test_longer_name(self) -> None:
        with pytest.raises(NotReadable, match="does not end"):
            found([], name=b"codec\0")

    @pytest.mark.parametrize("object_bytes", [0, 1025, 1 << 63])
    def test_size_that_no_object_has(self, object_bytes: int) -> None:
        assert found([], object_bytes=object_bytes) is None
