"""Attaches probes to one library file, and counts the files where that fails."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from exporter.errors import KernelRefused
from exporter.host.leases import Lease
from exporter.host.libraries import FileId, LibraryKind, MappedLibrary, SkippedLibrary, SkipReason
from exporter.host.reader_documents import ExaminedLibrary
from exporter.kernel import probes
from exporter.kernel.abi import Api
from exporter.kernel.apis import API_LABEL
from exporter.kernel.loader import Kernel
from exporter.kernel.mapped_files import FileStamp, RealFile
from exporter.kernel.operations import wanted_symbols
from exporter.kernel.probes import Attachment, NoDescriptors

log = logging.getLogger(__name__)

API_OF = {LibraryKind.RUNTIME: Api.RUNTIME, LibraryKind.DRIVER: Api.DRIVER, LibraryKind.NCCL: Api.NCCL}

MappingKey = tuple[int, int, bytes]  # device, inode and path of a mapping: enough to know it again without opening it
OwnersFile = tuple[str, RealFile | MappingKey]
"""What an owner's processes have mapped, as far as that owner is concerned: it has not been read, or something else was."""
FileIdentity = RealFile | FileId | MappingKey | OwnersFile


@dataclass(slots=True, eq=False)
class Probed:
    """One library file. attachment None: examined and left alone (malformed, or it has nothing to probe).

    identities: under which it was met. first_met: inode and path of the mapping.
    expected_until: by the clock of Discovery; until then it stays probed though no process maps it. owner: of its place among
    the known files. places: inodes and paths of mappings by which processes have it. lease: while it is held the file
    cannot be written to; None: it is not guarded. users: processes that map a probed file that is not guarded. stamp: of the
    file when it was read, where the kernel says it. read_at_walk: when that was.
    """

    path: str
    first_met: tuple[int, bytes]
    api: Api
    attachment: Attachment | None
    identities: set[FileIdentity] = field(default_factory=set)
    last_used_walk: int = 0
    expected_until: float = 0.0
    owner: str = ""
    places: set[tuple[int, bytes]] = field(default_factory=set)
    users: set[int] = field(default_factory=set)
    lease: Lease | None = None
    stamp: FileStamp | None = None
    read_at_walk: int = 0


NAMED_MAX = 256
"""Libraries that the log names because too few descriptors were left."""


class FileProber:
    """with_launches: whether launches are probed."""

    def __init__(self, kernel: Kernel, *, with_launches: bool) -> None:
        self._kernel = kernel
        self._with_launches = with_launches
        self.failures: Counter[tuple[str, ...]] = Counter()
        self._named: set[str] = set()

    def symbols_of(self, kind: LibraryKind) -> Collection[str]:
        """The functions that would be probed."""
        return wanted_symbols(API_OF[kind], with_launches=self._with_launches)

    def probe(self, found: ExaminedLibrary, lease: Lease | None) -> Probed:
        """Attach to a file; a failure is counted, or raised if it is NoDescriptors.

        lease: of the file, from before it was read; given back with the probes.
        """
        api, mapping, offsets = API_OF[found.library.kind], found.library.mapping, found.offsets
        path, first_met = mapping.shown_path, (mapping.inode, mapping.path)
        if not offsets:
            self.count_failure(API_LABEL[api], "no_symbols", f"{path}: none of the wanted functions is in it")
            return self._left_alone(found, lease)
        try:
            attachment = probes.attach(self._kernel, api, found.fd, offsets)
        except NoDescriptors:
            raise
        except KernelRefused as error:
            self.count_failure(API_LABEL[api], "refused", f"{path}: {error.one_line()}")
            return self._left_alone(found, lease)
        guarded = "" if lease else ", not guarded against being overwritten"
        log.info("attached to %s: %d functions, %s%s", path, len(attachment.functions), attachment.kind_label, guarded)
        return Probed(path, first_met, api, attachment, lease=lease)

    @staticmethod
    def _left_alone(found: ExaminedLibrary, lease: Lease | None) -> Probed:
        if lease is not None:
            lease.give_back()
        mapping = found.library.mapping
        return Probed(mapping.shown_path, (mapping.inode, mapping.path), API_OF[found.library.kind], None)

    def without_descriptors(self, library: MappedLibrary, error: NoDescriptors) -> SkippedLibrary:
        """It is probed as soon as there are enough. The log names each."""
        path = library.mapping.shown_path
        if path not in self._named and len(self._named) < NAMED_MAX:
            self._named.add(path)
            log.warning("cannot probe %s: %s", path, error.one_line())
        return SkippedLibrary(library, SkipReason.DESCRIPTORS, f"{path}: {error}")

    def count_failure(self, library: str, reason: str, detail: str) -> None:
        """Count it, and log the first one of a kind."""
        if not self.failures[library, reason]:
            log.warning(
                "cannot probe %s (%s): %s; further such failures are only counted in"
                " gpustall_exporter_attach_failures_total",
                "some library" if library == "any" else f"a {library} library",
                reason,
                detail,
            )
        self.failures[library, reason] += 1
