"""Limits the freed memory that the C library retains: mallopt(3), malloc_trim(3).

glibc gives each thread that allocates a heap of its own, and each retains what was freed in it. Only one of our threads runs
at a time, so they share one heap, which takes 8 MiB less on a full node. Other C libraries have neither function.
"""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> None:
    """Make threads that are started later share one heap."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Return free pages to the kernel: 10 MiB after the scrape of a full node."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
