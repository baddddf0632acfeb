"""How many library files each owner may have known and probed.

In: owners of files that are taken and given back. Out: whether one more may be taken. A probed file holds some 300 KiB of the
kernel's memory, so a user who maps thousands of made-up libraries must not take all of it.
The rule is the dynamic threshold of shared-memory switches: no owner may have more than what is free. One greedy owner gets half,
two get a third each, and a new owner always finds some.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

FILE_BYTES: Final = 320 << 10
"""Kernel memory of a probed library with some 300 functions, measured on 6.18."""
MEMORY_PART: Final = 64
"""The files may take so small a part of the node's memory."""
FILES_MAX: Final = 1_024
FILES_MIN: Final = 128
FILES_OF_ANY_OWNER: Final = 8
"""Granted to each owner even if nothing is free."""


def capacity_of(memory_bytes: int) -> int:
    """Files on a node with so much memory."""
    return max(FILES_MIN, min(FILES_MAX, memory_bytes // MEMORY_PART // FILE_BYTES))


def memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class FileShares:
    """Not safe between threads: its caller has a lock."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity_of(memory_bytes()) if capacity is None else capacity
        self._taken: Counter[str] = Counter()

    def taken(self, owner: str) -> int:
        return self._taken[owner]

    def may_take(self, owner: str) -> bool:
        own = self._taken[owner]
        return own < max(self.capacity - self._taken.total(), FILES_OF_ANY_OWNER)

    def take(self, owner: str) -> None:
        self._taken[owner] += 1

    def give_back(self, owner: str) -> None:
        self._taken[owner] -= 1
        if self._taken[owner] <= 0:
            del self._taken[owner]
