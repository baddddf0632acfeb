"""Attaches probes to every CUDA and NCCL library that a process maps, and detaches them when none does.

In: a loaded Kernel, /proc, a reader of what belongs to tenants. Out: attachments, and what was skipped, counted.
A file is what a uprobe is bound to: the inode below every overlay, which the kernel names (kernel/mapped_files.py). Where it
cannot, files are distinguished by stat(2), and one may be attached twice; the kernel programs count its calls once.
Looks (looks.py) decides which process is looked at when. A file that no process mapped during two whole walks is detached.
Files that were not known before are probed, and guarded, by new_files.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.errors import ExporterError, NoAnswer
from exporter.host import libraries
from exporter.host.leases import Lease, NoLease
from exporter.host.libraries import LibraryKind, MappedLibrary, SkippedLibrary, SkipReason
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel.abi import Api
from exporter.kernel.loader import Kernel
from exporter.kernel.mapped_files import MappedFile, MappedFiles
from exporter.kernel.mapping_watch import Mapped
from exporter.kernel.probes import NoDescriptors
from exporter.probes.file_prober import API_OF, FileProber, Probed
from exporter.probes.file_shares import FileShares
from exporter.probes.known_files import KnownFiles
from exporter.probes.library_opener import LibraryOpener, key_of, opened_as
from exporter.probes.new_files import EXPECTED_SECONDS, NewFile, NewFiles
from exporter.probes.unnamed import UnnamedSearch

log = logging.getLogger(__name__)

_PASSING = frozenset({SkipReason.SHARE, SkipReason.VANISHED, SkipReason.WRITTEN, SkipReason.DESCRIPTORS})
"""Reasons that may not hold at the next walk."""

Owner = str
"""Who answers for a process; see workloads/owner.py."""


class Discovery:
    """The library files known. Its methods may be called from any thread; a file is attached by one at a time.

    apis: which ones to probe. with_launches: whether launches are probed. only_in: the directory of those that are; None for all.
    owner_of: the owner of a process. shares: of probed files.
    """

    def __init__(
        self,
        kernel: Kernel,
        processes: Processes,
        apis: frozenset[Api],
        *,
        with_launches: bool,
        only_in: Path | None = None,
        owner_of: Callable[[int], Owner] = lambda _: "",
        shares: FileShares | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._only_in = only_in
        self._kernel = kernel
        self._processes = processes
        self._apis = apis
        self._owner_of = owner_of
        self._prober = FileProber(kernel, with_launches=with_launches)
        self._opener = LibraryOpener(processes, MappedFiles(kernel))
        self._lock = threading.RLock()
        self._files = KnownFiles(shares or FileShares())
        self._unnamed = UnnamedSearch(processes, self.count_unanswered, self._count_unexamined, clock)
        self._new_files = NewFiles(self._files, self._prober, self._lock, lambda: self._is_enabled, clock)
        self._is_enabled = True
        self._is_frozen = False
        self.unreadable_processes = 0
        """In the last whole walk."""

    def probed(self) -> Sequence[Probed]:
        """Files with probes attached."""
        return self._files.probed

    @property
    def failures(self) -> Mapping[tuple[str, ...], int]:
        """Files that could not be probed, by library and reason."""
        return dict(self._prober.failures)

    @property
    def surplus(self) -> Mapping[tuple[str, ...], int]:
        """Attachments whose calls another one counted, by library."""
        return dict(self._files.surplus)

    @property
    def changed(self) -> Mapping[tuple[str, ...], int]:
        """Probed files that were written to, by library."""
        return dict(self._files.changed)

    def is_attached(self, mapped: Mapped) -> bool:
        """Whether probes are on the file of this mapping, as the kernel names it, and it is guarded: no look is needed."""
        return (mapped.device, mapped.inode, mapped.generation) in self._files.attached

    @property
    def is_enabled(self) -> bool:
        """Whether libraries are probed when found."""
        return self._is_enabled

    def disable(self) -> None:
        """Attach nothing from now on; close() detaches. Also from a signal handler."""
        self._is_enabled = False

    def freeze(self) -> None:
        """Keep what is attached, and attach nothing from now on. What removes it has the capabilities of the caller."""
        self._is_frozen = True
        self._new_files.change_thread()

    def begin_walk(self) -> None:
        """A walk through all processes begins; see proc_walk.py."""
        with self._lock:
            self._files.walk_number += 1

    def end_walk(self, not_read: Collection[Owner]) -> None:
        """It is over: detach what is not in use. not_read: owners of processes that were not read."""
        with self._lock:
            if not self._is_frozen:  # what is detached would not come back
                partly_read = map(self._owner_of, self._unnamed.partly_examined())
                self._files.detach_unused(self._clock(), {*not_read, *partly_read})

    def detach_unguarded(self) -> None:
        """Detach files that cannot be leased, if all processes that mapped them have ended. Call it often."""
        with self._lock:
            if not self._is_frozen:
                self._files.detach_unguarded(self._clock(), self._processes.is_alive)

    def look_at(self, tgid: int, reader: TenantReader) -> Iterator[None]:
        """Attach to the libraries of one process that are not known yet, one in each step. Raises NoAnswer."""
        for number, mapped, _ in reader.libraries((tgid,)):
            yield from self.met(number, mapped, reader)

    def count_unanswered(self, error: NoAnswer) -> None:
        with self._lock:
            self._prober.count_failure("any", SkipReason.UNANSWERED.value, error.one_line())

    def _count_unexamined(self, detail: str) -> None:
        with self._lock:
            self._prober.count_failure("any", SkipReason.UNEXAMINED.value, detail)

    def count_left_out(self, owner: Owner) -> None:
        """A process was not looked at, since too many of its owner wait. A later walk finds it."""
        with self._lock:
            detail = f"too many processes of {owner} wait to be looked at"
            self._prober.count_failure("any", SkipReason.SHARE.value, detail)

    def met(self, tgid: int, mapped: Sequence[MappedLibrary] | ExporterError, reader: TenantReader) -> Iterator[None]:
        """Attach to the libraries of one process, which are known already, one in each step. Raises NoAnswer."""
        if isinstance(mapped, ExporterError):
            return
        for some in chain([mapped], () if self._is_frozen else self._unnamed.steps(tgid, mapped, reader)):
            wanted = [library for library in some if API_OF[library.kind] in self._apis and self._is_in_scope(library)]
            real_files = self._opener.real_files(tgid) if wanted else {}
            for library in wanted:
                if not self._is_enabled:
                    return
                self._meet(tgid, library, real_files.get((library.mapping.start, library.mapping.end)), reader)
                yield
            yield  # after files of other names have been examined for a while

    def _is_in_scope(self, library: MappedLibrary) -> bool:
        return self._only_in is None or Path(library.mapping.shown_path).parent == self._only_in

    def note_use(self, files: Collection[tuple[int, bytes]]) -> None:
        """A process has just mapped these (inode, path): a library stays probed even if the process ends at once."""
        with self._lock:
            self._files.note_use(files)

    def expect(self, path: Path, kind: LibraryKind, reader: TenantReader) -> None:
        """Probe a library that a process is about to map, so that not even its first call is missed."""
        if self._is_enabled and API_OF[kind] in self._apis:
            self._examine(0, reader.inspect_file(path, kind, self._prober.symbols_of(kind)), None, reader)

    @property
    def can_prepare(self) -> bool:
        """Not with single probes: a library has hundreds, and the kernel takes long to remove each."""
        is_single = self._kernel.attach_kind is AttachKind.SINGLE
        return self._is_enabled and not self._is_frozen and self._only_in is None and not is_single

    def prepare(self, tgid: int, path: Path, kind: LibraryKind, reader: TenantReader) -> None:
        """Probe a library that lies where a process may map it at any time, for EXPECTED_SECONDS, if it can be leased.

        tgid: the process in whose root directory it lies. Raises NoAnswer, MalformedElf.
        """
        if not self.can_prepare or API_OF[kind] not in self._apis:
            return
        found = reader.inspect_file(path, kind, self._prober.symbols_of(kind))
        if isinstance(found, SkippedLibrary):
            return
        with found:
            own = self._opener.real_file(reader, found)
            identity = own.file if own else found.file_id
            owner = self._owner_of(tgid)
            with self._lock:
                file = self._files.get(identity, API_OF[kind])
                is_wanted = (
                    file is None
                    and self._is_enabled
                    and bool(found.offsets)
                    and self._files.has_room_for_expected(owner)
                    and self._files.shares.may_take(owner)
                    and not self._opener.is_of_user(tgid, found.library, own.file if own else None, found.file_system)
                )
            if is_wanted and isinstance(lease := self._new_files.lease_of(found, own), Lease):
                file = self._new_files.probe(NewFile(0, found, owner, {identity}, own), lease, reader)
            if file is not None and (file.lease is not None or file.attachment is None):
                file.expected_until = self._clock() + EXPECTED_SECONDS
        reader.release()

    def _meet(self, tgid: int, library: MappedLibrary, mapped: MappedFile | None, reader: TenantReader) -> None:
        """mapped: the file, where the kernel identifies it."""
        api, met = API_OF[library.kind], mapped.file if mapped else key_of(library)
        with self._lock:
            file = self._files.get(met, api) or self._files.get((self._owner_of(tgid), met), api)
            if file is not None and not self._files.forget_changed(file, mapped.stamp if mapped else None):
                self._files.use(file, (library.mapping.inode, library.mapping.path), tgid)
                return
            refusal = self._refusal(tgid, library, mapped)
        if refusal is not None:
            self._skip(tgid, refusal, mapped)
            return
        symbols, real = self._prober.symbols_of(library.kind), mapped.file if mapped else None
        self._examine(tgid, self._opener.open(tgid, library, real, symbols, reader=reader), mapped, reader)

    def _skip(self, tgid: int, found: SkippedLibrary, mapped: MappedFile | None) -> None:
        """Count a file that is not probed, and remember it for its owner, unless the next look may find it otherwise.

        Not for others: the process chooses what is found in its mapping while it is looked at.
        """
        with self._lock:
            if found.reason not in _PASSING:
                owner, met = self._owner_of(tgid), mapped.file if mapped else key_of(found.library)
                self._files.leave_alone(found, owner, (owner, met), mapped.stamp if mapped else None)
            self._prober.count_failure(found.library.kind.value, found.reason.value, found.detail)

    def _refusal(self, tgid: int, library: MappedLibrary, mapped: MappedFile | None) -> SkippedLibrary | None:
        """Why a file is not even opened."""
        path = library.mapping.shown_path
        if self._is_frozen:
            detail = f"{path} was loaded after startup, and --probes.attach-once is set"
            return SkippedLibrary(library, SkipReason.FROZEN, detail)
        owner, shares = self._owner_of(tgid), self._files.shares
        if not shares.may_take(owner):
            detail = f"{path}: {owner} has {shares.taken(owner)} of {shares.capacity} files, its share"
            return SkippedLibrary(library, SkipReason.SHARE, detail)
        if self._opener.is_of_user(tgid, library, mapped.file if mapped else None):
            return libraries.served_by_user(library)
        return None

    def _examine(
        self, tgid: int, found: ExaminedLibrary | SkippedLibrary, mapped: MappedFile | None, reader: TenantReader
    ) -> None:
        """Probe an open file, unless it is probed under another name; remember what cannot be. mapped: before it was opened."""
        if isinstance(found, SkippedLibrary):
            self._skip(tgid, found, mapped)
            return
        with found:
            own, owner = self._opener.real_file(reader, found), self._owner_of(tgid)
            if mapped is None and self._opener.is_of_user(tgid, found.library, None, found.file_system):
                self._skip(tgid, libraries.served_by_user(found.library), mapped)
                return
            identities = {own.file if own else found.file_id, opened_as(found, mapped, own, owner)}
            seen = mapped or own
            if not self._new_files.is_known(tgid, API_OF[found.library.kind], identities, seen):
                lease = self._new_files.lease_of(found, own)
                if lease is NoLease.WRITTEN:
                    detail = f"{found.library.mapping.shown_path}: it is open for writing"
                    self._skip(tgid, SkippedLibrary(found.library, SkipReason.WRITTEN, detail), mapped)
                else:
                    new = NewFile(tgid, found, owner, identities, seen)
                    try:
                        self._new_files.probe(new, lease, reader)
                    except NoDescriptors as error:
                        self._skip(tgid, self._prober.without_descriptors(found.library, error), mapped)
        reader.release()

    def note_surplus(self, number: int, first: int) -> None:
        """See KnownFiles.note_surplus()."""
        with self._lock:
            self._files.note_surplus(number, first)

    def close(self) -> None:
        """Detach everything."""
        with self._lock:
            self._files.detach_all()
        self._new_files.close()
