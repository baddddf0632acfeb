"""How much memory does the C library hold back? mallopt(3), malloc_trim(3).

glibc gives each thread that allocates a heap of its own, and each holds back what was freed in it. Of the exporter's threads one
runs at a time: they share one heap, which takes 8 MiB less on a full node. Other C libraries have none of the two.
"""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8  # malloc.h


def share_one_heap() -> None:
    """For the threads that are started from here on."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Whole pages that are free, to the kernel: after the scrape of a full node 10 MiB."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
