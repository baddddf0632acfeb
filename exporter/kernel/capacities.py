"""How many rows each table has room for, by the size of the machine.

In: its memory. Out: max_entries by map name. A table grows with what it holds, except the few that scheduler programs write.
"""

from __future__ import annotations

import os
from typing import Final

from exporter.kernel.share_rows import ONE_EACH, TABLES

GIBIBYTE: Final = 1 << 30
LARGE_MACHINE_BYTES: Final = 512 * GIBIBYTE
SMALL_MACHINE_BYTES: Final = 4 * GIBIBYTE
"""Above the first, tables have twice the room; below the second, half."""
PLACES: Final = "feeding"
"""An array whose size the programs know."""


def machine_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def capacity(name: str, declared: int, machine_bytes: int) -> int:
    """max_entries of a map. declared: in the C source, what a single owner may have on an ordinary machine, but of PLACES."""
    if name == PLACES or (name not in TABLES and name not in ONE_EACH):
        return declared
    if machine_bytes >= LARGE_MACHINE_BYTES:
        return 4 * declared
    if machine_bytes < SMALL_MACHINE_BYTES:
        return declared
    return 2 * declared
