"""A line on a terminal that says what a command waits for, such as the first answer of a slow server."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SILENT_SECONDS = 0.5
_STEP_SECONDS = 1.0


@contextmanager
def announced(what: str, *, silent_seconds: float = _SILENT_SECONDS) -> Iterator[None]:
    """Prints `waiting for WHAT, 3 s` on standard error while the block lasts, and removes it. Nothing where it is no terminal."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_announce, args=(what, silent_seconds, done), name="waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _announce(what: str, silent_seconds: float, done: threading.Event) -> None:
    began_at = time.monotonic()
    width, pause_seconds = 0, silent_seconds
    with suppress(OSError):  # a terminal that is gone: the command has its own error
        while not done.wait(pause_seconds):
            line = f"waiting for {what}, {time.monotonic() - began_at:.0f} s"
            width = max(width, len(line))
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
            pause_seconds = _STEP_SECONDS
        if width:
            print(f"\r{' ' * width}\r", end="", file=sys.stderr, flush=True)
