"""Probes of libraries while the exporter runs: attached as libraries appear, removed all at once on SIGUSR1."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from contextlib import nullcontext

from exporter import catalog
from exporter.app.self_metrics import report_attachments
from exporter.app.wakeups import Wakeups
from exporter.config.probes import AttachKind
from exporter.kernel.abi import EventKind
from exporter.kernel.events import KernelEvent
from exporter.kernel.grace_periods import expedited
from exporter.kernel.loader import Kernel
from exporter.own_metrics.store import OwnMetrics
from exporter.probes.discovery import Discovery
from exporter.probes.search import LibrarySearch

log = logging.getLogger(__name__)


class Probing:
    """Called from the loop; disable() from any thread."""

    def __init__(
        self, kernel: Kernel, discovery: Discovery, search: LibrarySearch, wakeups: Wakeups, own: OwnMetrics
    ) -> None:
        self._kernel = kernel
        self._discovery = discovery
        self._search = search
        self._wakeups = wakeups
        self._own = own
        self._is_on = True
        self._lost_mappings = 0

    def look_at_everything(self, *, with_search: bool) -> None:
        """Probe what processes have mapped. with_search: also what they may map, as nothing will be attached later."""
        self._discovery.walk_all()
        if with_search:
            for library in self._search.found_now():
                self._discovery.prepare(library)

    def start(self) -> None:
        """Search libraries that processes may map, in another thread."""
        if self._discovery.can_prepare:
            self._search.start()

    def disable(self) -> None:
        """Have remove_if_disabled() remove every probe; from any thread or a signal handler."""
        self._discovery.disable()

    def remove_if_disabled(self) -> bool:
        """Whether every probe was removed just now; none is attached until a restart."""
        if not self._is_on or self._discovery.is_enabled:
            return False
        started_at = time.monotonic()
        files = len(self._discovery.probed())
        with expedited() if self._kernel.attach_kind is AttachKind.SINGLE else nullcontext():
            self.remove()
        log.warning(
            "all probes removed from %d library files in %.2f s; restart to attach them again",
            files,
            time.monotonic() - started_at,
        )
        return True

    def remove(self) -> None:
        """Those of the libraries first, then those of the kernel."""
        self._is_on = False
        self._search.close()
        self._discovery.close()
        self._kernel.detach()
        self._wakeups.close_mappings()
        self._own.set(catalog.own.PROBES_ENABLED, 0)
        self.report()

    def look_at_fresh_mappings(self) -> None:
        """Probe libraries that a process has just mapped, and those that one may map at any time."""
        for library in self._search.found():
            self._discovery.prepare(library)
        mappings = self._wakeups.mappings
        if mappings is None:
            return
        fresh = mappings.drain()
        for tgid in {mapped.tgid for mapped in fresh}:
            self._discovery.look_at(tgid)
        self._discovery.note_use({(mapped.inode, mapped.path) for mapped in fresh})
        if mappings.lost > self._lost_mappings:
            self._lost_mappings = mappings.lost
            self._own.set(catalog.own.LOSSES, self._lost_mappings, "mapping_watch", "ring_full")
            self._discovery.hurry()

    def resolve_surplus(self, events: Iterable[KernelEvent]) -> None:
        """Detach attachments whose calls another attachment counts."""
        for event in events:
            if event.kind is EventKind.ATTACHMENT_SURPLUS:
                self._discovery.resolve_surplus(event.attachment, event.first)

    def step(self) -> None:
        """Walk a little further through /proc."""
        self._discovery.step()

    def report(self) -> None:
        """What is attached, among the exporter's own metrics."""
        report_attachments(self._own, self._discovery)
