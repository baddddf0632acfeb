"""Probes of libraries while the exporter runs: attached as libraries appear, removed all at once on SIGUSR1."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext

from exporter import catalog
from exporter.app.self_metrics import report_attachments
from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused
from exporter.kernel.abi import EventKind
from exporter.kernel.events import KernelEvent
from exporter.kernel.grace_periods import expedited
from exporter.kernel.loader import Kernel
from exporter.own_metrics.store import OwnMetrics
from exporter.probes.discovery import Discovery
from exporter.probes.looks import Looks
from exporter.probes.search import LibrarySearch

log = logging.getLogger(__name__)

FIRST_WALK_SECONDS = 10.0


class Probing:
    """Called from the loop; disable() from any thread. wake: called when the first walk is over."""

    def __init__(
        self,
        kernel: Kernel,
        discovery: Discovery,
        looks: Looks,
        search: LibrarySearch,
        own: OwnMetrics,
        *,
        wake: Callable[[], None],
    ) -> None:
        self._kernel = kernel
        self._discovery = discovery
        self._looks = looks
        self._search = search
        self._own = own
        self._wake = wake
        self._is_on = True
        self._started_at = time.monotonic()
        looks.on_first_walk = self._on_first_walk

    def look_at_everything(self) -> None:
        """Probe what processes have mapped, and what they may map, before anything else: nothing will be attached later."""
        self._looks.walk_now()
        self._search.search_now()

    def start(self) -> None:
        """Look for libraries that processes map, and for those that they may map, in other threads."""
        if not self._is_on:
            return
        self._looks.start()
        if self._discovery.can_prepare:
            self._search.start()

    @property
    def is_first_walk_over(self) -> bool:
        """Whether what ran at the start is probed, as far as it could be in FIRST_WALK_SECONDS."""
        return (
            not self._is_on
            or self._looks.is_first_walk_over.is_set()
            or time.monotonic() - self._started_at > FIRST_WALK_SECONDS
        )

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
        self._discovery.disable()
        self._discovery.close()
        self._kernel.detach()
        self.close()
        self._own.set(catalog.own.PROBES_ENABLED, 0)
        self.report()

    def close(self) -> None:
        """End the threads."""
        self._search.close()
        self._looks.close()

    def note_surplus(self, events: Iterable[KernelEvent]) -> None:
        """Count attachments whose calls another attachment counts."""
        for event in events:
            if event.kind is EventKind.ATTACHMENT_SURPLUS:
                self._looks.note_surplus(event.attachment, event.first)

    def follow_cpus(self) -> None:
        """Attach to CPUs that have come online; links to one end when it goes offline."""
        if not self._is_on:
            return
        try:
            self._kernel.follow_cpus()
        except KernelRefused as error:
            log.warning("page faults on a CPU are not measured: %s", error.one_line())

    def report(self) -> None:
        """What is attached, among the exporter's own metrics."""
        self._own.set(catalog.own.LOSSES, self._looks.lost_mappings, "mapping_watch", "ring_full")
        report_attachments(self._own, self._discovery)

    def _on_first_walk(self) -> None:
        self._wake()
        files = len(self._discovery.probed())
        if files or self._discovery.failures:
            log.info("probing %d library files of running processes", files)
        else:
            log.info("no CUDA or NCCL library in use yet: libraries are probed as soon as a process loads them")
