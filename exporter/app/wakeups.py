"""What the loop waits for: events of the kernel, and other threads that want it to go on."""

from __future__ import annotations

import os
import select
import time
from contextlib import ExitStack

from exporter.kernel.events import KernelEvent, event_of
from exporter.kernel.loader import Kernel

# Events come in bursts, as when a job starts eight ranks: what is read at once costs one wake-up.
_COALESCE_SECONDS = 0.01


class Wakeups:
    """One for the loop."""

    def __init__(self, kernel: Kernel, resources: ExitStack) -> None:
        self._records: list[bytes] = []
        self._ring = kernel.open_events(self._records)
        resources.callback(self._ring.close)
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        resources.callback(os.close, self._wake_fd)
        self._epoll = select.epoll()
        resources.callback(self._epoll.close)
        for descriptor in (self._ring.fileno(), self._wake_fd):
            self._epoll.register(descriptor, select.EPOLLIN)

    def wake(self) -> None:
        """End a wait; from any thread or a signal handler."""
        os.eventfd_write(self._wake_fd, 1)

    def wait(self, until: float) -> None:
        """Sleep until this time of time.monotonic(), an event, or wake()."""
        remaining_seconds = until - time.monotonic()
        woken_by = {fd for fd, _ in self._epoll.poll(remaining_seconds)} if remaining_seconds > 0 else set()
        if self._wake_fd in woken_by:
            os.eventfd_read(self._wake_fd)
        elif woken_by:
            time.sleep(_COALESCE_SECONDS)

    def events(self) -> list[KernelEvent]:
        """Those since the last call."""
        self._ring.consume()
        events = [event_of(record) for record in self._records]
        self._records.clear()
        return events
