"""The members of a C struct, packed and unpacked by name. Written out for every shared struct in abi.py."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

Values = tuple[Any, ...]
"""Any: struct knows no types."""


class Layout:
    """A struct without padding of the compiler. members: format codes of the module struct, by member and in their order."""

    __slots__ = ("iter_unpack", "members", "pack", "size", "unpack", "unpack_from")

    @property
    def offsets(self) -> dict[str, int]:
        """Bytes in front of each member."""
        return {member: self.offset(member) for member in self.members}

    def __init__(self, **members: str) -> None:
        whole = struct.Struct("=" + "".join(members.values()))
        self.members = members
        self.size = whole.size
        self.pack: Callable[..., bytes] = whole.pack
        self.unpack: Callable[[Any], Values] = whole.unpack
        self.unpack_from: Callable[..., Values] = whole.unpack_from
        self.iter_unpack: Callable[[Any], Iterator[Values]] = whole.iter_unpack

    def offset(self, member: str) -> int:
        """Bytes in front of a member."""
        names = list(self.members)
        return struct.calcsize("=" + "".join(self.members[name] for name in names[: names.index(member)]))

    def part(self, first: str, last: str = "") -> Layout:
        """The members from `first` to `last` alone, `last` included; without it, only the first."""
        names = list(self.members)
        wanted = names[names.index(first) : names.index(last or first) + 1]
        return Layout(**{name: self.members[name] for name in wanted})
