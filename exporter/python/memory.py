"""The memory of another process, which that process may fill with anything: numbers, texts and bytes of it, within bounds.

In: a function that copies bytes of the process. Out: values, or NotReadable, also if more is read than a real interpreter needs.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

from exporter.errors import NotReadable

READ_BYTES_MAX: Final = 4096
PAGE_BYTES: Final = 4096
"""The smallest page: a piece that ends within one is there or is not."""
ADDRESS_MIN: Final = 1 << 12
ADDRESS_MAX: Final = 1 << 56
"""Above what arm64 and x86-64 give to a process, with five levels of page tables as well."""


class ReadMemory(Protocol):
    """Copies memory of one process."""

    def __call__(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes, at most READ_BYTES_MAX. Raises NotReadable when any of them cannot be read."""


class BoundedMemory:
    """reads_max: how many reads are made before all others are refused."""

    def __init__(self, read: ReadMemory, reads_max: int) -> None:
        self._read = read
        self._reads_left = reads_max

    def content(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes, READ_BYTES_MAX of them in one read."""
        if size < 0 or not ADDRESS_MIN <= address <= ADDRESS_MAX - size:
            raise NotReadable(f"no process has {size} bytes at {address:#x}")
        pieces = []
        for at in range(address, address + size, READ_BYTES_MAX):
            length = min(READ_BYTES_MAX, address + size - at)
            if self._reads_left <= 0:
                raise NotReadable("needs more reads than any real interpreter")
            self._reads_left -= 1
            piece = self._read(at, length)
            if len(piece) != length:
                raise NotReadable(f"{len(piece)} of {length} bytes at {at:#x}")
            pieces.append(piece)
        return b"".join(pieces)

    def up_to(self, address: int, size: int) -> bytes:
        """`size` bytes, or those up to the end of the page if the next one cannot be read."""
        try:
            return self.content(address, size)
        except NotReadable:
            rest = PAGE_BYTES - address % PAGE_BYTES
            if rest >= size:
                raise
            return self.content(address, rest)

    def word(self, address: int) -> int:
        """An unsigned number of 64 bits."""
        return int.from_bytes(self.content(address, 8), "little")

    def words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}Q", self.content(address, 8 * count))

    def byte(self, address: int) -> int:
        return self.content(address, 1)[0]

    def c_string(self, address: int, bytes_max: int) -> bytes:
        """What stands before the NUL. Raises NotReadable when there is none within `bytes_max`."""
        text, terminator, _ = self.up_to(address, bytes_max).partition(b"\0")
        if not terminator:
            raise NotReadable(f"the text at {address:#x} does not end")
        return text
