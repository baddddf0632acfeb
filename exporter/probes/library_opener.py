"""Opens the very file that a process has mapped, through a reader, and says which inode a probe on it would be in.

In: a process, a mapping of it, a reader. Out: an examined library, or why it is skipped; files as the kernel names them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host import libraries
from exporter.host.libraries import MappedLibrary, SkippedLibrary
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.reader_documents import ExaminedLibrary
from exporter.host.user_file_systems import FUSE_MAGIC, is_served_by_user
from exporter.kernel.mapped_files import MappedFile, MappedFiles, Range, RealFile
from exporter.probes.file_prober import FileIdentity, MappingKey


class LibraryOpener:
    """Threads may share one: it keeps nothing."""

    def __init__(self, processes: Processes, mapped_files: MappedFiles) -> None:
        self._processes = processes
        self._mapped_files = mapped_files

    def real_files(self, tgid: int) -> Mapping[Range, MappedFile]:
        """The files of a process's mappings; empty where the kernel cannot identify them."""
        return self._mapped_files.of_process(self._processes.readable_id(tgid))

    def real_file(self, reader: TenantReader, found: ExaminedLibrary) -> MappedFile | None:
        """The inode that a probe on an examined file would be placed in; None where the kernel cannot identify it."""
        return self._mapped_files.at(reader.tgid, found.page) if found.page else None

    def open(
        self,
        tgid: int,
        library: MappedLibrary,
        real: RealFile | None,
        symbols: Collection[str],
        *,
        reader: TenantReader,
    ) -> ExaminedLibrary | SkippedLibrary:
        """The mapped file, not a copy that an overlay has put in its place since. real: that file, where it is known."""
        found = reader.inspect(tgid, library, symbols)
        if real is None or isinstance(found, SkippedLibrary) or self._is(real, reader, found) is not False:
            return found
        found.close()
        skipped = libraries.hidden(library)
        for layer in reader.layers(tgid, library, symbols):
            if isinstance(layer, SkippedLibrary):
                skipped = layer
            elif self._is(real, reader, layer):
                return layer
            else:
                layer.close()
        return skipped

    def _is(self, real: RealFile, reader: TenantReader, found: ExaminedLibrary) -> bool | None:
        """None: the kernel cannot identify it."""
        own = self.real_file(reader, found)
        return None if own is None else own.file == real

    def is_of_user(self, tgid: int, library: MappedLibrary, real: RealFile | None, file_system: int = 0) -> bool:
        """Whether a user serves the file system of a library; see host/user_file_systems.py. True for FUSE that no mount shows.

        file_system: its magic number, where the kernel does not identify the file; 0 before it was opened.
        """
        file_system = real.file_system if real is not None else file_system
        if file_system not in (0, FUSE_MAGIC):
            return False
        if real is not None and real.is_in_user_namespace:
            return True
        try:
            mountinfo = self._processes.read(tgid, "mountinfo", libraries.MOUNTINFO_BYTES_MAX) if tgid else b""
        except (ProcessGone, NotPossibleHere):
            mountinfo = b""
        is_served = is_served_by_user(mountinfo, library.mapping.device)
        return file_system == FUSE_MAGIC if is_served is None else is_served


def key_of(library: MappedLibrary) -> MappingKey:
    return library.mapping.device, library.mapping.inode, library.mapping.path


def opened_as(found: ExaminedLibrary, mapped: MappedFile | None, own: MappedFile | None, owner: str) -> FileIdentity:
    """What was mapped, if that is what was opened. Else so for this owner alone: something else may be mapped there since.

    mapped: before it was opened. own: the file that is open.
    """
    if mapped is not None:
        return mapped.file if own is not None and own.file == mapped.file else (owner, mapped.file)
    key = key_of(found.library)
    return key if found.file_id.inode == found.library.mapping.inode else (owner, key)
