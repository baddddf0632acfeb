"""Walks through /proc: finds libraries that processes mapped before the exporter started, and what fresh mappings have missed.

In: /proc, a reader of what belongs to tenants. Out: processes to look at, for looks.py. Files that are mapped are in use from the
time of the walk on, even if it takes long until their process is looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from exporter.errors import ExporterError, NoAnswer, NotPossibleHere
from exporter.host.libraries import MappedLibrary
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.probes.discovery import Discovery, Owner

log = logging.getLogger(__name__)

WALKED_AT_ONCE = 16
"""Processes whose mappings are read by one request."""


class Walked(NamedTuple):
    """A process that a walk has come to. tgid: 0 for none. steps: its look as far as it has come; None: not begun.

    seconds: how long its mappings were read.
    """

    tgid: int
    steps: Iterator[None] | None = None
    seconds: float = 0.0


class ProcWalk:
    """owner_of: the owner of a process. is_read_alone: processes that are not read together with others."""

    def __init__(
        self,
        discovery: Discovery,
        processes: Processes,
        owner_of: Callable[[int], Owner],
        is_read_alone: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._discovery = discovery
        self._processes = processes
        self._owner_of = owner_of
        self._is_read_alone = is_read_alone

    def steps(self, reader: TenantReader) -> Iterator[Walked]:
        """One walk: processes to look at, and Walked(0) after each few that were read."""
        self._discovery.begin_walk()
        unreadable = 0
        not_read: set[Owner] = set()
        tgids = self._processes.tgids()
        for at in range(0, len(tgids), WALKED_AT_ONCE):
            alone = [tgid for tgid in tgids[at : at + WALKED_AT_ONCE] if self._is_read_alone(tgid)]
            some = [tgid for tgid in tgids[at : at + WALKED_AT_ONCE] if tgid not in alone]
            try:
                found = list(reader.libraries(some))
            except NoAnswer:
                alone, found = alone + some, []
            not_read.update(map(self._owner_of, alone))
            denied = [tgid for tgid, mapped, _ in found if isinstance(mapped, NotPossibleHere)]
            not_read.update(map(self._owner_of, denied))
            unreadable += len(denied)
            yield from map(Walked, alone)
            yield from (self._walked(tgid, mapped, seconds, reader) for tgid, mapped, seconds in found)
            yield Walked(0)
        self._end(unreadable, len(tgids), not_read)

    def whole(self, reader: TenantReader) -> None:
        """One walk at once, with all looks."""
        for tgid, steps, _ in self.steps(reader):
            try:
                for _step in steps or (self._discovery.look_at(tgid, reader) if tgid else ()):
                    pass
            except NoAnswer as error:
                self._discovery.count_unanswered(error)

    def _walked(
        self, tgid: int, mapped: list[MappedLibrary] | ExporterError, seconds: float, reader: TenantReader
    ) -> Walked:
        if isinstance(mapped, list):
            self._discovery.note_use({(library.mapping.inode, library.mapping.path) for library in mapped})
        return Walked(tgid, self._discovery.met(tgid, mapped, reader), seconds)

    def _end(self, unreadable: int, processes: int, not_read: set[Owner]) -> None:
        if unreadable and unreadable != self._discovery.unreadable_processes:
            log.log(
                logging.WARNING if 2 * unreadable > processes else logging.INFO,
                "cannot read the mappings of %d of %d processes: not traced; reading those of others takes CAP_SYS_PTRACE, a"
                " security module may forbid it, and a process may have too many",
                unreadable,
                processes,
            )
        self._discovery.unreadable_processes = unreadable
        self._discovery.end_walk(not_read)
