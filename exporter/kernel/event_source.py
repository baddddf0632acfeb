"""Who opens perf events: this process, or one that has the capability which the kernel takes for it (probes/event_opener.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from exporter.kernel import perf_events, uprobe_events


class EventSource(Protocol):
    """Opens events, from any thread. Its methods raise KernelRefused, and leave none open. is_lost: it opens none any more."""

    @property
    def is_lost(self) -> bool: ...

    def uprobes(self, library_fd: int, offsets: Sequence[int], *, is_return: bool) -> list[int]:
        """A descriptor for each of up to uprobe_events.EVENTS_MAX offsets, in their order."""

    def software(self, event: int, cpu: int, *, period: int = 0, flags: int = 0, watermark: int = 0) -> int:
        """As perf_events.opened()."""


class OwnEvents:
    """Opened by the calling thread."""

    is_lost = False

    def uprobes(self, library_fd: int, offsets: Sequence[int], *, is_return: bool) -> list[int]:
        return uprobe_events.opened(library_fd, offsets, is_return=is_return)

    def software(self, event: int, cpu: int, *, period: int = 0, flags: int = 0, watermark: int = 0) -> int:
        return perf_events.opened(event, cpu, period=period, flags=flags, watermark=watermark)


OWN_EVENTS: Final[EventSource] = OwnEvents()
