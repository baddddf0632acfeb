"""CUDA runtimes and NCCL in files of other names: in libndj4cuda.so, or linked statically into any library or program.

In: a process that maps the CUDA driver, as all that use CUDA do. Out: its other files that define a whole runtime or a whole
NCCL, as libraries. Each file is examined once in REMEMBERED_SECONDS, some milliseconds at a time: a process may map hundreds.
A file that defines some of the functions only is none: it may be an interposer, whose calls reach the real library as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from exporter.errors import MalformedElf, NotPossibleHere, ProcessGone
from exporter.files import content
from exporter.host.elf import read_elf
from exporter.host.libraries import MARKS, LibraryKind, MappedLibrary, among, kind_of, open_library
from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import Processes

CODE_BYTES_MIN: Final = 32 << 10
"""A runtime has more code than that, and so has what contains it."""
FILES_MAX: Final = 1_024
"""Files of one process that are examined. What is known of others is found all the same."""
REMEMBERED_MAX: Final = 16_384
REMEMBERED_SECONDS: Final = 600.0
"""Then files are examined again: one may have been overwritten."""
SLICE_SECONDS: Final = 0.01

DEFINED: Final = {
    LibraryKind.RUNTIME: (
        *("cudaLaunchKernel", "cudaMalloc", "cudaFree", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaEventRecord"),
        *(
            "cudaGetDeviceCount",
            "cudaGetErrorString",
            "cudaRuntimeGetVersion",
            "cudaHostRegister",
            "cudaGraphInstantiate",
        ),
    ),
    LibraryKind.NCCL: (
        *("ncclAllReduce", "ncclCommInitRank", "ncclCommDestroy", "ncclGroupStart", "ncclGroupEnd"),
        *("ncclGetUniqueId", "ncclGetVersion", "ncclGetErrorString"),
    ),
}
"""Functions that each release of a library has; a file that defines them all contains it."""

# Large libraries that nearly every process maps. NVIDIA's have a runtime of their own inside, without symbols.
_OTHERS: Final = (
    *(b"ld-linux", b"libc.so", b"libm.so", b"libstdc++.so", b"libgcc_s.so", b"libcrypto.so", b"libssl.so"),
    *(b"libnvidia-", b"libcublas", b"libcudnn", b"libcufft", b"libcurand", b"libcusolver", b"libcusparse", b"libnvrtc"),
    *(b"libcupti", b"libnvJitLink", b"libnvToolsExt"),
)

_File = tuple[int, int, bytes]


class Examined(NamedTuple):
    """What is known of a process. left_out: files that are not examined, since there are too many."""

    libraries: list[MappedLibrary]
    is_complete: bool = True
    left_out: int = 0


class UnnamedLibraries:
    """What is known of files. For one thread."""

    def __init__(self, processes: Processes, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._clock = clock
        self._known: dict[_File, tuple[LibraryKind, ...]] = {}
        self._before: dict[_File, tuple[LibraryKind, ...]] = {}  # holds until a file is examined again
        self._forget_at = clock() + REMEMBERED_SECONDS

    def libraries(self, tgid: int) -> list[MappedLibrary]:
        """The libraries of a process: by their names, and what is known of other files. Raises ProcessGone, NotPossibleHere."""
        maps = self._processes.maps(tgid)
        if not any(mark in maps for mark in MARKS):
            return []
        mappings = list(parse_executable_mappings(maps))
        named = among(mappings)
        return [*named, *self._among(mappings)] if has_driver(named) else named

    def examine(self, tgid: int) -> Examined:
        """Libraries among other files; to be called again until it is complete. Raises ProcessGone, NotPossibleHere."""
        until = self._clock() + SLICE_SECONDS
        if self._clock() >= self._forget_at:
            self._before, self._known = self._known, {}
            self._forget_at = self._clock() + REMEMBERED_SECONDS
        mappings = list(parse_executable_mappings(self._processes.maps(tgid)))
        candidates = list(_candidates(mappings))
        new = [mapping for mapping in candidates if _file(mapping) not in self._known]
        new.sort(key=lambda mapping: not self._before.get(_file(mapping)))  # first what had a library before
        room = max(min(FILES_MAX - (len(candidates) - len(new)), REMEMBERED_MAX - len(self._known)), 0)
        for number, mapping in enumerate(new[:room], 1):
            self._known[_file(mapping)] = self._kinds(tgid, mapping)
            if self._clock() >= until and number < min(room, len(new)):
                return Examined(self._among(mappings), is_complete=False)
        return Examined(self._among(mappings), left_out=max(len(new) - room, 0))

    def all_libraries(self, tgid: int) -> list[MappedLibrary]:
        """The libraries of a process when all its files have been examined. Raises ProcessGone, NotPossibleHere."""
        named = self.libraries(tgid)
        while has_driver(named) and not self.examine(tgid).is_complete:
            pass
        return self.libraries(tgid)

    def _among(self, mappings: Iterable[Mapping]) -> list[MappedLibrary]:
        return [
            MappedLibrary(kind, mapping)
            for mapping in _candidates(mappings)
            for kind in self._known.get(_file(mapping), self._before.get(_file(mapping), ()))
        ]

    def _kinds(self, tgid: int, mapping: Mapping) -> tuple[LibraryKind, ...]:
        try:
            fd = open_library(self._processes, tgid, mapping)
        except (ProcessGone, NotPossibleHere, MalformedElf):
            return ()
        try:
            elf = read_elf(fd)
            return tuple(kind for kind, names in DEFINED.items() if len(elf.symbol_offsets(names)) == len(names))
        except MalformedElf:
            return ()
        finally:
            content.close(fd)


def has_driver(mapped: Iterable[MappedLibrary]) -> bool:
    """Whether a process uses CUDA at all: whatever its runtime is, the driver is a library of its own."""
    return any(library.kind is LibraryKind.DRIVER for library in mapped)


def _file(mapping: Mapping) -> _File:
    return mapping.device, mapping.inode, mapping.path


def _candidates(mappings: Iterable[Mapping]) -> Iterator[Mapping]:
    """Files of other names with enough code; the first such mapping of each."""
    seen: set[_File] = set()
    for mapping in mappings:
        if mapping.end - mapping.start < CODE_BYTES_MIN or _file(mapping) in seen or mapping.path.startswith(b"/dev/"):
            continue
        if kind_of(mapping.path) is None and not mapping.path.rpartition(b"/")[2].startswith(_OTHERS):
            seen.add(_file(mapping))
            yield mapping
