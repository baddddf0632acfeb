"""Lists of CPUs as the kernel, taskset and systemd write them.

In: `0-3,8`. Out: numbers, and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_LIST: Final = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*")
_CPUS_MAX: Final = 8192  # the kernel's limit, of x86-64 with MAXSMP


def parse_cpus(text: str) -> frozenset[int]:
    """Empty for text in another form."""
    if not _LIST.fullmatch(text):
        return frozenset()
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), _CPUS_MAX) + 1))
    return frozenset(found)


def cpu_list(cpus: Iterable[int]) -> str:
    """`0-3,8`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)
