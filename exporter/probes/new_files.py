"""Probes files that were not known before, and guards them: a program that writes to one waits until the probes are removed.

In: files that a reader has examined. Out: known files, with probes. A breakpoint in code that was written over it would end the
job: the kernel places it in every new mapping of the file, wherever the functions are by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import NamedTuple

from exporter.host.leases import LOCAL_FILE_SYSTEMS, Lease, Leases, NoLease
from exporter.host.libraries import SkipReason
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel.abi import Api
from exporter.kernel.mapped_files import MappedFile
from exporter.probes.file_prober import API_OF, FileIdentity, FileProber, Probed
from exporter.probes.known_files import KnownFiles

EXPECTED_SECONDS = 180.0
"""Three times as long as it takes LibrarySearch to find a file again."""


class NewFile(NamedTuple):
    """A file that was not known a moment ago. tgid: of the process that maps it; 0 before one does.

    seen: as it was before it was read, where the kernel identifies it.
    """

    tgid: int
    found: ExaminedLibrary
    owner: str
    identities: Collection[FileIdentity]
    seen: MappedFile | None


class NewFiles:
    """lock: of `files`. Call close() at last, without the lock."""

    def __init__(
        self,
        files: KnownFiles,
        prober: FileProber,
        lock: threading.RLock,
        is_enabled: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._prober = prober
        self._lock = lock
        self._is_enabled = is_enabled
        self._clock = clock
        self._leases = Leases(self._on_break)

    def close(self) -> None:
        self._leases.close()

    def change_thread(self) -> None:
        """See Leases.change_thread()."""
        self._leases.change_thread()

    def is_known(self, tgid: int, api: Api, identities: Collection[FileIdentity], seen: MappedFile | None) -> bool:
        """Whether one of them is of a known file that has not changed; it has the others as well then."""
        with self._lock:
            file = next((one for identity in identities if (one := self._files.get(identity, api)) is not None), None)
            if file is None or self._files.forget_changed(file, seen.stamp if seen else None):
                return False
            self._files.meet(file, identities)
            self._files.add_user(file, tgid)
            return True

    def lease_of(self, found: ExaminedLibrary, own: MappedFile | None) -> Lease | NoLease:
        """own: the file, where the kernel identifies it."""
        file_system = own.file.file_system if own else found.file_system
        return self._leases.take(found.fd) if file_system in LOCAL_FILE_SYSTEMS else NoLease.IMPOSSIBLE

    def probe(self, new: NewFile, lease: Lease | NoLease, reader: TenantReader) -> Probed | None:
        """Probe a file, which the reader has open; None if it is not wanted any more. Raises NoAnswer, MalformedElf.

        With a lease it is read again, since it may have been written to before.
        """
        if not isinstance(lease, Lease):
            return self._add(new, None)
        file = None
        try:
            again = reader.read_again(new.found, self._prober.symbols_of(new.found.library.kind))
            file = self._add(new._replace(found=again), lease)
        finally:
            if file is None:
                lease.give_back()
        return file

    def _add(self, new: NewFile, lease: Lease | None) -> Probed | None:
        with self._lock:
            library = new.found.library
            if not self._is_enabled() or self.is_known(new.tgid, API_OF[library.kind], new.identities, new.seen):
                return None
            if lease is not None and not lease.is_current:
                detail = f"{library.mapping.shown_path}: it was opened for writing"
                self._prober.count_failure(library.kind.value, SkipReason.WRITTEN.value, detail)
                return None
            file = self._prober.probe(new.found, lease)
            self._files.add(file, new.owner, new.identities, new.seen.stamp if new.seen else None)
            self._files.add_user(file, new.tgid)
            if not new.tgid and lease is None:
                file.expected_until = self._clock() + EXPECTED_SECONDS
            return file

    def _on_break(self, lease: Lease) -> None:
        """In the thread of the leases: a file is about to be written to."""
        with self._lock:
            self._files.end_of(lease)
