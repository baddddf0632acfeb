"""Finds the CUDA and NCCL libraries of a process, and opens the files that are really mapped.

In: the mappings of a process. Out: the libraries, each with a descriptor of the file that is mapped, its identity and its
symbols, or the reason why it was skipped. Names are only a first filter: elf.py reads which functions a library defines.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from exporter.errors import MalformedElf, NotPossibleHere, ProcessGone
from exporter.files import content
from exporter.host.elf import ElfFile, read_elf
from exporter.host.layers import paths_in_layers
from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import Processes, translated
from exporter.host.user_file_systems import is_fuse

_OVERLAYFS_MAGIC: Final = 0x794C7630
_LIBC: Final = ctypes.CDLL(None)
MOUNTINFO_BYTES_MAX: Final = 4 * 1024 * 1024
_DEAD: Final = (errno.ENOTCONN, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.ECONNABORTED)
_STATFS_BYTES: Final = 256  # struct statfs has 120 on x86_64 and aarch64; its first long is f_type


class LibraryKind(enum.Enum):
    """Which API a library has."""

    RUNTIME = "runtime"
    DRIVER = "driver"
    NCCL = "nccl"


class SkipReason(enum.Enum):
    """Why a library was not opened."""

    VANISHED = "vanished"  # the process, the mapping or the file is gone; usual
    DENIED = "denied"  # a privilege is missing
    MALFORMED = "malformed"  # not an ELF file in spite of its name
    HIDDEN = "hidden"  # an overlay has put a copy in its place after it was mapped
    UNANSWERED = "unanswered"  # its file system does not answer
    USER_FILE_SYSTEM = (
        "user_file_system"  # a user serves its file system, and could stop the kernel in the middle of a probe
    )
    WRITTEN = "written"  # it is open for writing: its functions may lie elsewhere soon
    FROZEN = "frozen"  # it appeared after the start, and nothing may be attached any more
    DESCRIPTORS = "descriptors"  # too few are left for its single probes
    UNEXAMINED = "unexamined"  # its process maps more files than are examined
    SHARE = "share"  # its owner has used up its share of probed files


# auditwheel puts hexadecimal digits of the content into a name: libcudart-d0da41ae.so.11.0. The plugins of NCCL
# (libnccl-net.so, -tuner, -profiler) do not match: their words are no hexadecimal numbers.
_NAMES: Final = {
    LibraryKind.RUNTIME: re.compile(rb"libcudart(-[0-9a-f]{6,64})?\.so(\..*)?", re.DOTALL),
    LibraryKind.DRIVER: re.compile(rb"libcuda\.so(\..*)?", re.DOTALL),
    LibraryKind.NCCL: re.compile(rb"(libnccl(-[0-9a-f]{6,64})?|libtorch_cuda)\.so(\..*)?", re.DOTALL),
}
# Every path that a pattern above accepts contains one of these: for most processes no line needs to be parsed.
MARKS: Final = (b"/libcudart", b"/libcuda.so", b"/libnccl", b"/libtorch_cuda.so")


class FileId(NamedTuple):
    """Identifies a file, whichever path leads to it. A dictionary key, not for display.

    device is 0 and changed_ns is set for a file on overlayfs, where each container has a device number of its own but
    the containers of one image share the file below, and a uprobe goes into the file below: attached once for each
    container it would count each call several times. Elsewhere changed_ns is 0.
    """

    device: int
    inode: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class MappedLibrary:
    """A library in one process; `mapping` has its path, device, inode and first executable address range."""

    kind: LibraryKind
    mapping: Mapping


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A descriptor that is open until close(). A context manager. file_system: its magic number."""

    library: MappedLibrary
    fd: int
    file_id: FileId
    file_system: int

    def close(self) -> None:
        """Call it once."""
        content.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class OpenedLibrary(HeldFile):
    """A library that was opened and read. elf needs `fd`."""

    elf: ElfFile


@dataclass(frozen=True, slots=True)
class SkippedLibrary:
    """A library that was not opened. detail: one printable sentence for the log."""

    library: MappedLibrary
    reason: SkipReason
    detail: str


def kind_of(path: bytes) -> LibraryKind | None:
    """The kind of library, by its file name."""
    name = path.rpartition(b"/")[2]
    for kind, pattern in _NAMES.items():
        if pattern.fullmatch(name):
            return kind
    return None


def find(processes: Processes, tgid: int) -> list[MappedLibrary]:
    """The CUDA libraries of one process, sorted by address, each file once. Raises ProcessGone, NotPossibleHere."""
    maps = processes.maps(tgid)
    if not any(mark in maps for mark in MARKS):
        return []
    return among(parse_executable_mappings(maps))


def among(mappings: Iterable[Mapping]) -> list[MappedLibrary]:
    """The CUDA libraries among mappings; the first mapping of each file."""
    found: dict[tuple[int, int, bytes], MappedLibrary] = {}
    for mapping in mappings:
        kind = kind_of(mapping.path)
        if kind is not None:
            found.setdefault((mapping.device, mapping.inode, mapping.path), MappedLibrary(kind, mapping))
    return list(found.values())


def open_library(processes: Processes, tgid: int, mapping: Mapping) -> int:
    """A descriptor of the file behind a mapping: read-only, close-on-exec, a regular file; the caller closes it.

    First /proc/TGID/map_files, which leads to the mapped file itself, deleted or in another mount namespace. It needs
    CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN; without them the path below /proc/TGID/root, if the inode is still the same.
    Raises ProcessGone when the process, the mapping or the file is gone, NotPossibleHere when a privilege is missing, and
    MalformedElf when it is not a regular file.
    """
    directory = os.fsencode(processes.proc) + b"/%d" % processes.readable_id(tgid)
    try:
        return _open_regular(b"%s/map_files/%x-%x" % (directory, mapping.start, mapping.end))
    except OSError as error:
        first = translated(error, tgid, "map_files")
    try:
        fd = _open_regular(directory + b"/root" + mapping.path)
    except (OSError, ValueError) as error:
        if isinstance(error, ValueError) or isinstance(translated(error, tgid, "root"), ProcessGone):
            raise _reason_of_absence(processes, tgid, first) from error
        raise translated(error, tgid, mapping.shown_path) from error
    # Only the inode is compared: maps shows the device of the file system, which on btrfs, and on overlayfs of older
    # kernels, is another number than that of stat(2).
    try:
        if os.fstat(fd).st_ino == mapping.inode:
            return fd
    except OSError as error:
        content.close(fd)
        raise translated(error, tgid, mapping.shown_path) from error
    content.close(fd)
    raise _reason_of_absence(processes, tgid, first)


def _reason_of_absence(
    processes: Processes, tgid: int, first: ProcessGone | NotPossibleHere
) -> ProcessGone | NotPossibleHere:
    """Why a file is not at its path: the process has ended, or the file was deleted and only map_files has it."""
    processes.stat(tgid)
    return first


def _open_regular(path: bytes) -> int:
    """The observed process chooses the path: a symbolic link in it leads wherever that process likes, within our root."""
    try:
        return content.open_regular(path, follow_links=True)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.EISDIR):
            raise MalformedElf("mapped by a library's name, but not a regular file") from error
        raise


def file_id(fd: int, file_system: int) -> FileId:
    """The identity of an open file. Raises MalformedElf when the descriptor is not open."""
    try:
        status = os.fstat(fd)
    except OSError as error:
        raise MalformedElf(f"cannot stat descriptor {fd}: {error.strerror}") from error
    if file_system == _OVERLAYFS_MAGIC:
        return FileId(0, status.st_ino, status.st_ctime_ns)
    return FileId(status.st_dev, status.st_ino, 0)


def file_system_of(fd: int) -> int:
    """Its magic number, 0 if it is unknown. os.fstatvfs() does not return f_type; fstatfs(2) does."""
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(ctypes.c_int(fd), buffer) != 0:
        return 0
    return int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], "little")


def inspect(processes: Processes, tgid: int, library: MappedLibrary) -> OpenedLibrary | SkippedLibrary:
    """Open and read one library. The caller closes an OpenedLibrary, and counts a SkippedLibrary by its reason."""
    try:
        fd = open_library(processes, tgid, library.mapping)
    except ProcessGone as error:
        return SkippedLibrary(library, SkipReason.VANISHED, error.one_line())
    except NotPossibleHere as error:
        if _is_of_dead_file_system(error):
            return SkippedLibrary(library, SkipReason.UNANSWERED, error.one_line())
        if _is_on_fuse(processes, tgid, library):
            return served_by_user(library)
        return SkippedLibrary(library, SkipReason.DENIED, error.one_line())
    except MalformedElf as error:
        return _malformed(library, error)
    return _read(library, fd)


def _is_on_fuse(processes: Processes, tgid: int, library: MappedLibrary) -> bool:
    try:
        return is_fuse(processes.read(tgid, "mountinfo", MOUNTINFO_BYTES_MAX), library.mapping.device)
    except (ProcessGone, NotPossibleHere):
        return False


def served_by_user(library: MappedLibrary) -> SkippedLibrary:
    """A user serves its file system; see user_file_systems.py."""
    detail = (
        f"{library.mapping.shown_path}: a user serves its file system; put the library on one that root has mounted"
    )
    return SkippedLibrary(library, SkipReason.USER_FILE_SYSTEM, detail)


def inspect_layers(processes: Processes, tgid: int, library: MappedLibrary) -> Iterator[OpenedLibrary | SkippedLibrary]:
    """The files that a mapped library may be if an overlay hides it behind a copy. The caller closes them.

    Searches its layers in the mount namespaces of this process, of the node's first process, and of the process that maps it.
    """
    try:
        mountinfo = processes.read(tgid, "mountinfo", MOUNTINFO_BYTES_MAX)
    except (ProcessGone, NotPossibleHere):
        return
    roots = (b"", *(os.fsencode(processes.proc) + b"/%d/root" % number for number in (1, processes.readable_id(tgid))))
    for layered in paths_in_layers(mountinfo, library.mapping.path):
        for root in roots:
            try:
                fd = _open_regular(root + layered)
            except (OSError, ValueError, MalformedElf):
                continue  # try the next path
            yield _read(library, fd)


def hidden(library: MappedLibrary) -> SkippedLibrary:
    """None of the files of inspect_layers() is the mapped one."""
    detail = (
        f"{library.mapping.shown_path}: an overlay has copied it after it was mapped, and its layer cannot be reached"
    )
    return SkippedLibrary(library, SkipReason.HIDDEN, detail)


def inspect_file(path: Path, kind: LibraryKind) -> OpenedLibrary | SkippedLibrary:
    """Open and read a library before any process maps it. Raises OSError when there is none at `path`."""
    fd = _open_regular(os.fsencode(path))
    try:
        status = os.fstat(fd)
    except OSError:
        content.close(fd)
        raise
    mapping = Mapping(0, 0, os.fsencode(path), status.st_dev, status.st_ino, is_deleted=False)
    return _read(MappedLibrary(kind, mapping), fd)


def _read(library: MappedLibrary, fd: int) -> OpenedLibrary | SkippedLibrary:
    """Takes ownership of `fd`."""
    try:
        file_system = file_system_of(fd)
        return OpenedLibrary(library, fd, file_id(fd, file_system), file_system, read_elf(fd))
    except MalformedElf as error:
        content.close(fd)
        return _malformed(library, error)
    except BaseException:
        content.close(fd)
        raise


def _malformed(library: MappedLibrary, error: MalformedElf) -> SkippedLibrary:
    reason = SkipReason.UNANSWERED if _is_of_dead_file_system(error) else SkipReason.MALFORMED
    return SkippedLibrary(library, reason, f"{library.mapping.shown_path}: {error.one_line()}")


def _is_of_dead_file_system(error: BaseException) -> bool:
    """A server that has gone, or a disk that has failed, and no file that is wrong."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in _DEAD
