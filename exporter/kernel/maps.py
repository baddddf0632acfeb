"""Reading and pruning kernel maps: the boundary that tests replace with FakeMap.

In: the descriptor of a hash or array map. Out: raw keys and values, which the modules *_rows decode.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Protocol

from exporter.kernel.libbpf import Libbpf

_ROOM = 512  # entries per batch call at first; grows if one bucket has more
_ROOM_BYTES = 256 << 10  # limit of the buffer for large entries

_Buffer = ctypes.Array[ctypes.c_char]
# Shared by all maps, because few are read at a time. A reader puts its buffer back when it is done.
_free_buffers: list[_Buffer] = []


def _take_buffer(size_bytes: int) -> _Buffer:
    try:
        buffer = _free_buffers.pop()
    except IndexError:
        return ctypes.create_string_buffer(size_bytes)
    return buffer if len(buffer) >= size_bytes else ctypes.create_string_buffer(size_bytes)


class MapReader(Protocol):
    """Access to one map. Keys and values are bytes as the kernel lays them out."""

    @property
    def capacity(self) -> int:
        """max_entries."""
        ...

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once, in no order; an entry that changes during the reading may have either value."""
        ...

    def get(self, key: bytes) -> bytes | None:
        """The value of one key."""
        ...

    def put(self, key: bytes, value: bytes) -> None:
        """Insert or replace."""
        ...

    def delete(self, key: bytes) -> None:
        """Remove one key; it may be gone already."""
        ...


class KernelMap:
    """A MapReader over a hash or array map in the kernel, read in batches of one system call each."""

    def __init__(self, libbpf: Libbpf, fd: int, key_bytes: int, value_bytes: int, capacity: int) -> None:
        self._libbpf = libbpf
        self.fd = fd
        self._key_bytes = key_bytes
        self._value_bytes = value_bytes
        self._capacity = capacity
        self._room = min(_ROOM, max(_ROOM_BYTES // max(value_bytes, 1), 1), capacity)  # a ring has no values

    @property
    def capacity(self) -> int:
        """max_entries."""
        return self._capacity

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once; see MapReader."""
        position = ctypes.create_string_buffer(max(8, self._key_bytes))  # for a trie it is a key
        is_first = True
        while True:
            values_at = self._room * self._key_bytes
            buffer = _take_buffer(values_at + self._room * self._value_bytes)
            values = ctypes.byref(buffer, values_at)
            count, is_last = self._libbpf.lookup_batch(
                self.fd, position, is_first=is_first, keys=buffer, values=values, room=self._room
            )
            if count < 0:
                self._room = min(self._room * 2, self._capacity)
                continue
            raw_keys = ctypes.string_at(buffer, count * self._key_bytes)
            raw_values = ctypes.string_at(values, count * self._value_bytes)
            _free_buffers.append(buffer)
            yield from zip(_cut(raw_keys, self._key_bytes), _cut(raw_values, self._value_bytes), strict=True)
            if is_last:
                return
            is_first = False

    def get(self, key: bytes) -> bytes | None:
        """The value of one key."""
        return self._libbpf.lookup(self.fd, key, self._value_bytes)

    def delete(self, key: bytes) -> None:
        """Remove one key."""
        self._libbpf.delete(self.fd, key)

    def put(self, key: bytes, value: bytes) -> None:
        """Insert or replace."""
        self._libbpf.update(self.fd, key, value)


def _cut(raw: bytes, size_bytes: int) -> list[bytes]:
    return [raw[at : at + size_bytes] for at in range(0, len(raw), size_bytes)]
