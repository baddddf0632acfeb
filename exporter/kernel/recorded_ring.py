"""Copies the ring of a recording in pieces: a call of libbpf's reader for each record would take the exporter 3 us of each call.

In: the descriptor of the ring. Out: records as they lie in it, with their headers. Source: kernel/bpf/ringbuf.c.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

_BUSY, _DISCARDED = 1 << 31, 1 << 30  # BPF_RINGBUF_BUSY_BIT, _DISCARD_BIT
HEADER_BYTES = 8
_POSITION = struct.Struct("=Q")
_LENGTH = struct.Struct("=I")


class RecordedRing:
    """The only reader of the ring. size_bytes: of the ring, a power of two."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._consumer = mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        try:  # the data follow twice, so that no piece of them has a gap
            self._producer = mmap.mmap(
                fd, mmap.PAGESIZE + 2 * size_bytes, mmap.MAP_SHARED, mmap.PROT_READ, offset=mmap.PAGESIZE
            )
        except OSError:
            self._consumer.close()
            raise

    def take(self, most_bytes: int) -> bytes:
        """Complete records that are waiting, oldest first; empty if there are none. most_bytes: more than one record."""
        (began,), (end,) = _POSITION.unpack_from(self._consumer), _POSITION.unpack_from(self._producer)
        at = began
        while at < end:
            (length,) = _LENGTH.unpack_from(self._producer, self._place(at))
            if length & _BUSY:
                break
            step = record_bytes(length)
            if at + step - began > most_bytes:
                break
            at += step
        first = self._place(began)
        taken = self._producer[first : first + at - began]
        _POSITION.pack_into(self._consumer, 0, at)
        return taken

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()

    def _place(self, position: int) -> int:
        return mmap.PAGESIZE + position % self._size_bytes


def record_bytes(length: int) -> int:
    """Bytes from the header of a record to the next one. length: the first word of its header."""
    return ((length & ~(_BUSY | _DISCARDED)) + HEADER_BYTES + 7) & ~7


def records(piece: bytes) -> Iterator[tuple[int, int]]:
    """Place and bytes of each record in a piece that take() returned. Raises ValueError if it ends within a record."""
    at = 0
    while at < len(piece):
        if at + HEADER_BYTES > len(piece):
            raise ValueError("half a header")
        (length,) = _LENGTH.unpack_from(piece, at)
        following = at + record_bytes(length)
        if following > len(piece):
            raise ValueError("half a record")
        if not length & _DISCARDED:
            yield at + HEADER_BYTES, length
        at = following
