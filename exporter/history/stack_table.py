"""Stacks of call sites in the history: each once, by the hash of its frames, within a share of the file.

In: windows. Out: rows of the table `stacks`. A stack that is left out for its size is one of the "other stacks" when it is read.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable
from typing import Final

from exporter.history.packing import decompressed
from exporter.history.window import Window
from exporter.python.call_site import STACK_BYTES_MAX, CallStack, stack_number
from exporter.text import untrusted
from exporter.units import NANOSECONDS

SHARE: Final = 32
"""Stacks take one part in so many of the file: 1.7 MiB of 55 MiB, some thousand stacks."""
WRITTEN_SHARE: Final = 8
"""A window adds at most one part in so many of that. A job whose code changes all the time takes no more."""
SEEN_AGAIN_NS: Final = 600 * NANOSECONDS
"""The time of a stack is written again when it is so old: not with every window."""

_ROW_BYTES: Final = 24  # that a row takes beside its frames


class StackTable:
    """file_bytes: limit of the whole file. Its methods raise sqlite3.DatabaseError."""

    def __init__(self, file_bytes: int) -> None:
        self._bytes_max = file_bytes // SHARE

    def write(self, transaction: sqlite3.Connection, windows: Iterable[Window], at_unix_ns: int) -> None:
        """Adds the stacks of windows that ended at this time, those with the most time in slow calls first."""
        sites = sorted((site for one in windows for site in one.call_sites), key=lambda site: -site.total_ns)
        left_bytes = self._bytes_max // WRITTEN_SHARE
        for stack in dict.fromkeys(site.stack for site in sites if site.stack.frames):
            number = stack.number
            known = transaction.execute("select seen_unix_ns from stacks where id = ?", (number,)).fetchone()
            if known is not None:
                if at_unix_ns - known[0] >= SEEN_AGAIN_NS:
                    transaction.execute("update stacks set seen_unix_ns = ? where id = ?", (at_unix_ns, number))
                continue
            encoded = stack.encoded()
            if len(encoded) > STACK_BYTES_MAX:
                continue
            frames = zlib.compress(encoded)
            left_bytes -= len(frames) + _ROW_BYTES
            if left_bytes >= 0:
                transaction.execute("insert into stacks values (?, ?, ?)", (number, at_unix_ns, frames))

    def prune(self, transaction: sqlite3.Connection, before_unix_ns: int) -> None:
        """Deletes stacks that no window since then has, and the oldest ones until they are within their share."""
        transaction.execute("delete from stacks where seen_unix_ns < ?", (before_unix_ns - SEEN_AGAIN_NS,))
        size_bytes = _size_bytes(transaction)
        if size_bytes <= self._bytes_max:
            return
        rows = transaction.execute("select id, length(frames) from stacks order by seen_unix_ns, id").fetchall()
        for number, frames_bytes in rows:
            if size_bytes <= self._bytes_max:
                break
            transaction.execute("delete from stacks where id = ?", (number,))
            size_bytes -= frames_bytes + _ROW_BYTES


def _size_bytes(transaction: sqlite3.Connection) -> int:
    (size_bytes,) = transaction.execute(
        f"select coalesce(sum(length(frames) + {_ROW_BYTES}), 0) from stacks"  # noqa: S608 - a number of our own
    ).fetchone()
    return int(size_bytes)


def stack_of(frames: object) -> CallStack:
    """The stack of a row, which any program may have written. Raises ValueError for other content."""
    if not isinstance(frames, bytes):
        raise untrusted.Untrusted("the frames of a stack are not compressed")
    return CallStack.decoded(decompressed(frames, STACK_BYTES_MAX))


def refuse_other_number(number: int, frames: object) -> bytes:
    """The frames. Raises ValueError unless the number is theirs: no file may give a stack to the call sites of another one."""
    if not isinstance(frames, bytes) or stack_number(decompressed(frames, STACK_BYTES_MAX)) != number:
        raise untrusted.Untrusted("a stack has another number than its frames")
    return frames
