"""A process that is stopped for a while."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped(tgid: int, seconds: float) -> Iterator[None]:
    """SIGSTOP, and SIGCONT when the time is over; the body begins after that."""
    os.kill(tgid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(tgid, signal.SIGCONT)
    yield
