"""Who opens perf events: the exporter, or a process of its own where the kernel takes CAP_SYS_ADMIN for it.

In: the kind of attachment that is wanted, before capabilities are dropped. Out: an EventSource. Partner: event_program.py, which
has that capability and no other, and does nothing else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused, NoAnswer
from exporter.host import capabilities, privileges
from exporter.host.child_process import ChildProcess
from exporter.kernel import loader, perf_events, uprobe_events
from exporter.kernel.event_source import OWN_EVENTS, EventSource
from exporter.kernel.probes import NoDescriptors

MODULE: Final = "exporter.probes.event_program"
PATIENCE_SECONDS: Final = 20.0
"""The kernel registers a probe in every process that maps the file, before it returns an event."""


class EventOpener:
    """An EventSource: the client of event_program.py. From any thread.

    A child that has ended, or was given up, has no successor: by then this process has no CAP_SYS_ADMIN to pass on.
    """

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._lock = threading.Lock()
        self._is_closed = False
        self.is_lost = False

    def uprobes(self, library_fd: int, offsets: Sequence[int], *, is_return: bool) -> list[int]:
        events = self._opened([list(offsets), is_return], (library_fd,))
        if len(events) != len(offsets):
            for event in events:
                os.close(event)
            raise NoDescriptors("too few file descriptors are left", remedy="raise the limit of open files")
        return events

    def software(self, event: int, cpu: int, *, period: int = 0, flags: int = 0, watermark: int = 0) -> int:
        events = self._opened([event, cpu, period, flags, watermark], ())
        if not events:
            raise KernelRefused("no file descriptor is left", remedy="raise the limit of open files")
        return events[0]

    def close(self) -> None:
        """Open nothing from now on."""
        self._is_closed = True
        self._child.close()

    def _opened(self, request: Any, descriptors: Sequence[int]) -> list[int]:
        with self._lock:
            if self._is_closed or self.is_lost:
                how = "was closed" if self._is_closed else "is gone"
                raise KernelRefused(f"cannot open perf events: the process that opens them {how}")
            try:
                refusal, events = self._child.ask(request, PATIENCE_SECONDS, descriptors)
            except NoAnswer as error:
                self.is_lost = not self._is_closed
                raise KernelRefused(f"cannot open perf events: the process that opens them gave {error}") from error
        if refusal:
            message, remedy = refusal
            raise KernelRefused(message, remedy=remedy)
        return events


def prepared(wanted: AttachKind | None, resources: ExitStack, *, with_network_namespaces: bool = False) -> EventSource:
    """What opens events after privileges.drop(); called before it. wanted: None for the best kind. resources: has the process.

    Raises KernelRefused if nothing can open those of single probes and there is no other kind, and NoAnswer if the process does
    not start.
    """
    if not privileges.are_sufficient():
        return OWN_EVENTS
    can_link = loader.links_many(wanted)
    for opens_one in (_open_software,) if can_link else (uprobe_events.open_one, _open_software):
        try:
            privileges.after_drop(opens_one, with_network_namespaces=with_network_namespaces)
        except KernelRefused:
            if capabilities.has(privileges.PLACING):
                return _started(resources)
            if not can_link:
                raise
    return OWN_EVENTS


def _open_software() -> None:
    """Raises KernelRefused."""
    os.close(perf_events.opened(perf_events.DUMMY, min(perf_events.online_cpus())))


def _started(resources: ExitStack) -> EventOpener:
    child = ChildProcess(MODULE, (), (privileges.PLACING,))
    opener = EventOpener(child)
    resources.callback(opener.close)
    child.start()
    return opener
