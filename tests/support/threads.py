"""A process that cannot start threads, as at the limit of its cgroup."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STACK_BYTES = 1 << 50
"""More than an address space has: mmap(2) refuses it."""


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Thread.start() raises RuntimeError during the block."""
    before_bytes = threading.stack_size(_STACK_BYTES)
    try:
        yield
    finally:
        threading.stack_size(before_bytes)
