"""Attaches probes to every CUDA and NCCL library that a process maps, and detaches them when none does.

In: a loaded Kernel, /proc, a reader of what belongs to tenants. Out: attachments, and what was skipped, counted.
A file is what a uprobe is bound to: the inode below every overlay, which the kernel names (kernel/mapped_files.py). Where it
cannot, files are distinguished by stat(2), and a surplus attachment is found by its calls (resolve_surplus()).
Looks (looks.py) decides which process is looked at when. A file that no process mapped during two whole walks is detached.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.errors import ExporterError, NoAnswer
from exporter.host.libraries import LibraryKind, MappedLibrary, SkippedLibrary, SkipReason
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel.abi import Api
from exporter.kernel.loader import Kernel
from exporter.kernel.mapped_files import MappedFiles, RealFile
from exporter.probes.file_prober import API_OF, FileProber, MappingKey, Probed
from exporter.probes.file_shares import FILES_OF_ANY_OWNER, FileShares
from exporter.probes.known_files import KnownFiles
from exporter.probes.library_opener import LibraryOpener

log = logging.getLogger(__name__)

MAX_EXPECTED = 128
EXPECTED_SECONDS = 180.0
"""Three times as long as it takes LibrarySearch to find a file again."""

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

    def is_attached(self, device: int, inode: int, generation: int) -> bool:
        """Whether probes are on the file of this mapping, as the kernel names it: no look is needed."""
        return (device, inode, generation) in self._files.attached

    @property
    def is_enabled(self) -> bool:
        """Whether libraries are probed when found."""
        return self._is_enabled

    def disable(self) -> None:
        """Attach nothing from now on; close() detaches. Also from a signal handler."""
        self._is_enabled = False

    def freeze(self) -> None:
        """Keep what is attached, and attach nothing from now on."""
        self._is_frozen = True

    def begin_walk(self) -> None:
        """A walk through all processes begins; see proc_walk.py."""
        with self._lock:
            self._files.walk_number += 1

    def end_walk(self, not_read: Collection[Owner]) -> None:
        """It is over: detach what is not in use. not_read: owners of processes that were not read."""
        with self._lock:
            if not self._is_frozen:  # what is detached would not come back
                self._files.detach_unused(self._clock(), not_read)

    def look_at(self, tgid: int, reader: TenantReader) -> Iterator[None]:
        """Attach to the libraries of one process that are not known yet, one in each step. Raises NoAnswer."""
        for number, mapped, _ in reader.libraries((tgid,)):
            yield from self.met(number, mapped, reader)

    def count_unanswered(self, error: NoAnswer) -> None:
        """A look was given up."""
        with self._lock:
            self._prober.count_failure("any", SkipReason.UNANSWERED.value, error.one_line())

    def count_left_out(self, owner: Owner) -> None:
        """A process was not looked at, since too many of its owner wait. A later walk finds it."""
        with self._lock:
            detail = f"too many processes of {owner} wait to be looked at"
            self._prober.count_failure("any", SkipReason.SHARE.value, detail)

    def met(self, tgid: int, mapped: Sequence[MappedLibrary] | ExporterError, reader: TenantReader) -> Iterator[None]:
        """Attach to the libraries of one process, which are known already, one in each step. Raises NoAnswer."""
        if isinstance(mapped, ExporterError):
            return
        wanted = [library for library in mapped if API_OF[library.kind] in self._apis and self._is_in_scope(library)]
        real_files = self._opener.real_files(tgid) if wanted else {}
        for library in wanted:
            if not self._is_enabled:
                return
            self._meet(tgid, library, real_files.get((library.mapping.start, library.mapping.end)), reader)
            yield

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
        """Probe a library that lies where a process may map it at any time, for EXPECTED_SECONDS.

        tgid: the process in whose root directory it lies. Raises NoAnswer, MalformedElf.
        """
        if not self.can_prepare or API_OF[kind] not in self._apis:
            return
        found = reader.inspect_file(path, kind, self._prober.symbols_of(kind))
        if isinstance(found, SkippedLibrary):
            return
        with found:
            own = self._opener.real_file(reader, found)
            identity = own or found.file_id
            with self._lock:
                file = self._files.get(identity)
                owner = self._owner_of(tgid)
                if (
                    file is None
                    and self._is_enabled
                    and found.offsets
                    and self._has_room_for_expected(owner)
                    and self._files.shares.may_take(owner)
                    and not self._opener.is_of_user(tgid, found.library, own)
                ):
                    file = self._prober.probe(found)
                    self._files.add(file, owner, {identity})
                if file is not None:
                    file.expected_until = self._clock() + EXPECTED_SECONDS
        reader.release()

    def _has_room_for_expected(self, owner: Owner) -> bool:
        """As for all files, an owner may have as many as are free."""
        owners = [file.owner for file in self._files.all() if file.expected_until > 0.0]
        return owners.count(owner) < max(MAX_EXPECTED - len(owners), FILES_OF_ANY_OWNER)

    def _meet(self, tgid: int, library: MappedLibrary, real: RealFile | None, reader: TenantReader) -> None:
        """real: the file that is mapped, where the kernel identifies it."""
        met = real or _key(library)
        with self._lock:
            file = self._files.get(met)
            if file is not None:
                self._files.use(file, (library.mapping.inode, library.mapping.path))
                return
            refusal = self._refusal(tgid, library, real)
        if refusal is None:
            symbols = self._prober.symbols_of(library.kind)
            self._examine(tgid, self._opener.open(tgid, library, real, symbols, reader=reader), real, reader)
            return
        with self._lock:
            if refusal.reason is not SkipReason.SHARE:  # there may be room at the next walk
                self._files.leave_alone(refusal, self._owner_of(tgid), met)
            self._prober.count_failure(library.kind.value, refusal.reason.value, refusal.detail)

    def _refusal(self, tgid: int, library: MappedLibrary, real: RealFile | None) -> SkippedLibrary | None:
        """Why a file is not even opened."""
        path = library.mapping.shown_path
        if self._is_frozen:
            detail = f"{path} was loaded after startup, and --probes.attach-once is set"
            return SkippedLibrary(library, SkipReason.FROZEN, detail)
        owner = self._owner_of(tgid)
        shares = self._files.shares
        if not shares.may_take(owner):
            detail = f"{path}: {owner} has {shares.taken(owner)} of {shares.capacity} files, its share"
            return SkippedLibrary(library, SkipReason.SHARE, detail)
        if self._opener.is_of_user(tgid, library, real):
            detail = f"{path}: a user serves its file system; put the library on one that root has mounted"
            return SkippedLibrary(library, SkipReason.USER_FILE_SYSTEM, detail)
        return None

    def _examine(
        self, tgid: int, found: ExaminedLibrary | SkippedLibrary, real: RealFile | None, reader: TenantReader
    ) -> None:
        """Probe an open file, unless it is probed under another name; remember one that cannot be."""
        met = real or _key(found.library)
        if isinstance(found, ExaminedLibrary):
            with found:
                own = self._opener.real_file(reader, found) or found.file_id
                with self._lock:
                    file = self._files.get(own)
                    if file is not None:
                        self._files.meet(file, {met, own})
                    elif self._is_enabled:  # it may have been disabled since the look began
                        self._files.add(self._prober.probe(found), self._owner_of(tgid), {met, own})
            reader.release()
            return
        with self._lock:
            if found.reason is not SkipReason.VANISHED:
                self._files.leave_alone(found, self._owner_of(tgid), met)
            self._prober.count_failure(found.library.kind.value, found.reason.value, found.detail)

    def resolve_surplus(self, number: int, first: int) -> None:
        """See KnownFiles.resolve_surplus()."""
        with self._lock:
            self._files.resolve_surplus(number, first)

    def close(self) -> None:
        """Detach everything."""
        with self._lock:
            self._files.detach_all()


def _key(library: MappedLibrary) -> MappingKey:
    return library.mapping.device, library.mapping.inode, library.mapping.path
