"""Attaches probes to every CUDA and NCCL library that a process maps, and detaches them when none does.

In: a loaded Kernel, /proc, and the kernel's events of fresh mappings. Out: attachments, and what was skipped, counted.
A file is what a uprobe is bound to: the inode below every overlay, which the kernel names (kernel/mapped_files.py). Where it
cannot, files are distinguished by stat(2), and a surplus attachment is found by its calls (resolve_surplus()).
A walk through /proc goes a little further at every tick, so that a node with thousands of processes never stalls the loop;
fresh mappings are looked at right away. A file that no process mapped during two whole walks is detached.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host import libraries
from exporter.host.libraries import LibraryKind, MappedLibrary, OpenedLibrary, SkippedLibrary
from exporter.host.processes import Processes
from exporter.kernel import probes
from exporter.kernel.abi import Api
from exporter.kernel.apis import API_LABEL
from exporter.kernel.loader import Kernel
from exporter.kernel.mapped_files import MappedFiles, RealFile
from exporter.probes.file_prober import API_OF, FileIdentity, FileProber, MappingKey, Probed

log = logging.getLogger(__name__)

STEP_SECONDS = 0.005
WALKS_UNUSED = 2
MAX_EXPECTED = 64
EXPECTED_SECONDS = 180.0
"""Three times as long as it takes LibrarySearch to find a file again."""


class Discovery:
    """The library files known, and the walk that finds more.

    apis: which ones to probe. with_launches: whether launches are probed. only_in: the directory of those that are; None for all.
    """

    def __init__(
        self,
        kernel: Kernel,
        processes: Processes,
        apis: frozenset[Api],
        interval_seconds: float,
        *,
        with_launches: bool,
        only_in: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._only_in = only_in
        self._kernel = kernel
        self._processes = processes
        self._apis = apis
        self.interval_seconds = interval_seconds
        self._prober = FileProber(kernel, with_launches=with_launches)
        self._mapped_files = MappedFiles(kernel)
        self._files: dict[FileIdentity, Probed] = {}
        self._walk_number = 0
        self._walk: Iterator[int] | None = None
        self._next_walk_at = 0.0
        self._unreadable = 0
        self._is_enabled = True
        self._is_frozen = False
        self.unreadable_processes = 0  # in the last whole walk
        self.surplus: Counter[tuple[str, ...]] = Counter()

    @property
    def failures(self) -> Counter[tuple[str, ...]]:
        """Files that could not be probed, by library and reason."""
        return self._prober.failures

    def probed(self) -> list[Probed]:
        """Files with probes attached."""
        return [file for file in self._known() if file.attachment]

    def _known(self) -> list[Probed]:
        return list(dict.fromkeys(self._files.values()))

    def walk_all(self) -> None:
        """One whole walk at once, at start-up."""
        self._begin_walk()
        while self._walk is not None:
            self.step(float("inf"))

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

    def hurry(self) -> None:
        """Events were dropped: start the next walk at the next step."""
        self._next_walk_at = 0.0

    def step(self, seconds: float = STEP_SECONDS) -> None:
        """Go on with the walk for about `seconds`, or begin one when the interval has passed."""
        if not self._is_enabled:
            self._walk = None
            return
        now = self._clock()
        if self._walk is None:
            if now < self._next_walk_at:
                return
            self._begin_walk()
        assert self._walk is not None  # noqa: S101 - just begun
        for tgid in self._walk:
            self.look_at(tgid)
            if self._clock() - now > seconds:
                return
        self._walk = None
        if self._unreadable and self._unreadable != self.unreadable_processes:
            log.info("cannot read /proc of %d processes (permission denied): not traced", self._unreadable)
        self.unreadable_processes = self._unreadable
        self._next_walk_at = now + self.interval_seconds
        self._detach_unused()

    def _begin_walk(self) -> None:
        self._walk_number += 1
        self._unreadable = 0
        self._walk = iter(self._processes.tgids())

    def look_at(self, tgid: int) -> None:
        """Attach to the libraries of one process that are not known yet. It may be gone by now."""
        try:
            mapped = libraries.find(self._processes, tgid)
        except ProcessGone:
            return
        except NotPossibleHere as error:
            self._unreadable += 1
            log.debug("not looked at: %s", error.one_line())
            return
        wanted = [library for library in mapped if API_OF[library.kind] in self._apis and self._is_in_scope(library)]
        real_files = self._mapped_files.of_process(tgid) if wanted else {}
        for library in wanted:
            if not self._is_enabled:
                return
            self._meet(tgid, library, real_files.get((library.mapping.start, library.mapping.end)))

    def _is_in_scope(self, library: MappedLibrary) -> bool:
        return self._only_in is None or Path(library.mapping.shown_path).parent == self._only_in

    def note_use(self, files: Collection[tuple[int, bytes]]) -> None:
        """A process has just mapped these (inode, path): a library stays probed even if the process ends at once."""
        if files:
            for file in self._known():
                if file.first_met in files:
                    file.last_used_walk = self._walk_number

    def expect(self, path: Path, kind: LibraryKind) -> None:
        """Probe a library that a process is about to map, so that not even its first call is missed."""
        if self._is_enabled and API_OF[kind] in self._apis:
            self._examine(libraries.inspect_file(path, kind), None)

    @property
    def can_prepare(self) -> bool:
        """Not with single probes: a library has hundreds, and the kernel takes long to remove each."""
        is_single = self._kernel.attach_kind is AttachKind.SINGLE
        return self._is_enabled and not self._is_frozen and self._only_in is None and not is_single

    def prepare(self, found: OpenedLibrary) -> None:
        """Probe a library that lies where a process may map it at any time, for EXPECTED_SECONDS; takes ownership of it."""
        with found:
            api = API_OF[found.library.kind]
            if not self.can_prepare or api not in self._apis:
                return
            own = self._mapped_files.of_descriptor(found.fd) or found.file_id
            file = self._files.get(own)
            if file is None and self._has_room_for_expected() and self._prober.has_symbols(found):
                file = self._prober.probe(found)
                self._remember(file, {own})
            if file is not None:
                file.expected_until = self._clock() + EXPECTED_SECONDS

    def _has_room_for_expected(self) -> bool:
        return sum(file.expected_until > 0.0 for file in self._known()) < MAX_EXPECTED

    def _meet(self, tgid: int, library: MappedLibrary, real: RealFile | None) -> None:
        """real: the file that is mapped, where the kernel identifies it."""
        file = self._files.get(real or _key(library))
        if file is None and self._is_frozen:
            mapping, api = library.mapping, API_OF[library.kind]
            self._remember(
                Probed(mapping.shown_path, (mapping.inode, mapping.path), api, None), {real or _key(library)}
            )
            self._prober.count_failure(
                library.kind.value,
                "frozen",
                f"{mapping.shown_path} was loaded after startup, and --probes.attach-once is set",
            )
        elif file is None:
            self._examine(self._open(tgid, library, real), real)
        else:
            file.last_used_walk = self._walk_number

    def _open(self, tgid: int, library: MappedLibrary, real: RealFile | None) -> OpenedLibrary | SkippedLibrary:
        """The mapped file, not a copy that an overlay has put in its place since."""
        found = libraries.inspect(self._processes, tgid, library)
        if real is None or not isinstance(found, OpenedLibrary) or self._leads_to(found.fd, real):
            return found
        found.close()
        return libraries.inspect_layers(
            self._processes, tgid, library, lambda fd: self._mapped_files.of_descriptor(fd) == real
        )

    def _leads_to(self, fd: int, real: RealFile) -> bool:
        """True also where the kernel cannot identify it."""
        return self._mapped_files.of_descriptor(fd) in (real, None)

    def _examine(self, found: OpenedLibrary | SkippedLibrary, real: RealFile | None) -> None:
        """Probe an open file, unless it is probed under another name; remember one that cannot be."""
        met = real or _key(found.library)
        if isinstance(found, OpenedLibrary):
            with found:
                own = self._mapped_files.of_descriptor(found.fd) or found.file_id
                self._remember(self._files.get(own) or self._prober.probe(found), {met, own})
            return
        if found.reason is not libraries.SkipReason.VANISHED:  # so that it is not opened again at every walk
            mapping, kind = found.library.mapping, found.library.kind
            self._remember(Probed(mapping.shown_path, (mapping.inode, mapping.path), API_OF[kind], None), {met})
        self._prober.count_failure(found.library.kind.value, found.reason.value, found.detail)

    def _remember(self, file: Probed, identities: set[FileIdentity]) -> None:
        file.last_used_walk = self._walk_number
        file.identities |= identities
        self._files |= dict.fromkeys(identities, file)

    def resolve_surplus(self, number: int, first: int) -> None:
        """The attachment `number` sees calls that the attachment `first` has seen: remove it when both are on one file.

        It is the one whose view is not counted, so that no open call is lost with it. Between two different files a call is
        passed on by a jump; both stay, since either may be called directly as well.
        """
        by_number = {file.attachment.number: file for file in self.probed() if file.attachment}
        file, other = by_number.get(number), by_number.get(first)
        if file is None or other is None or file.attachment is None:
            return  # already detached
        self.surplus[(API_LABEL[file.api],)] += 1
        if file.likeness != other.likeness:
            log.info("calls to %s are forwarded to %s: each is counted once", other.path, file.path)
            return
        file.attachment.detach()
        log.info("detached from %s: it is the same file as %s", file.path, other.path)
        self._remember(other, file.identities)

    def _detach_unused(self) -> None:
        if self._is_frozen:  # what is detached would not come back
            return
        now = self._clock()
        unused = [
            file
            for file in self._known()
            if self._walk_number - file.last_used_walk >= WALKS_UNUSED and file.expected_until <= now
        ]
        probes.detach_all(file.attachment for file in unused if file.attachment)
        for file in unused:
            if file.attachment:
                log.info("detached from %s: no process maps it any more", file.path)
            for identity in file.identities:
                del self._files[identity]

    def close(self) -> None:
        """Detach everything."""
        probes.detach_all(file.attachment for file in self._known() if file.attachment)
        self._files.clear()


def _key(library: MappedLibrary) -> MappingKey:
    return library.mapping.device, library.mapping.inode, library.mapping.path
