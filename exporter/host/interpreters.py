"""Where the variables of Python interpreters are in a process: in the program, in libpython, or in a file of any other name.

In: a tgid. Out: the interpreters, each with the addresses of three of its variables. A file that defines `_PyRuntime` has an
interpreter. Names of files only say which are examined first, since a process may map hundreds: some milliseconds at a time, and
each file once in REMEMBERED_SECONDS. The module `_asyncio`, which may be part of the program, has a section with its offsets.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from exporter.errors import ExporterError, MalformedElf, NotPossibleHere, ProcessGone
from exporter.files import content
from exporter.host.elf import ElfFile, LoadSegment, bases, read_elf
from exporter.host.libraries import open_library
from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import Processes

RUNTIME, CODE_TYPE, VERSION = SYMBOLS = ("_PyRuntime", "PyCode_Type", "Py_Version")
FILES_MAX: Final = 1_024
"""Files of one process that are examined. What is known of others is found all the same."""
INTERPRETERS_MAX: Final = 8
"""In one process: usually there is one, and more where a library has its own copy."""
REMEMBERED_MAX: Final = 16_384
REMEMBERED_SECONDS: Final = 600.0
"""Then files are examined again: one may have been overwritten."""
SLICE_SECONDS: Final = 0.01
ASYNCIO_SECTION: Final = b".AsyncioDebug"
"""What the module `_asyncio` of 3.14 says about its objects: struct _Py_AsyncioModuleDebugOffsets of Modules/_asynciomodule.c."""
ASYNCIO_FILES_MAX: Final = 8
_ASYNCIO: Final = re.compile(rb"_asyncio\.[\w.-]*so")
_LIKELY: Final = re.compile(rb"(lib)?python[\d.]+[a-z]*(\.so[\d.]*)?")

_File = tuple[int, int, bytes]


class MappedInterpreter(NamedTuple):
    """runtime, code_type, version: addresses in the process of _PyRuntime, PyCode_Type, Py_Version; 0 for one that is not there.

    path: of the file, printable.
    """

    path: str
    runtime: int
    code_type: int
    version: int


class _Found(NamedTuple):
    """An interpreter in a file: addresses as the file has them."""

    segments: tuple[LoadSegment, ...]
    addresses: tuple[int, int, int]


class Interpreters:
    """What is known of files. For one thread."""

    def __init__(self, processes: Processes, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._clock = clock
        self._known: dict[_File, _Found | None] = {}
        self._searched: set[_File] = set()  # also for what they do not export
        self._forget_at = clock() + REMEMBERED_SECONDS

    def examine(self, tgid: int) -> tuple[list[MappedInterpreter], bool]:
        """The interpreters that are known, and whether all files have been examined; else it is to be called again.

        Raises ProcessGone, NotPossibleHere.
        """
        until = self._clock() + SLICE_SECONDS
        if self._clock() >= self._forget_at or len(self._known) > REMEMBERED_MAX:
            self._known, self._searched = {}, set()
            self._forget_at = self._clock() + REMEMBERED_SECONDS
        program = _program(self._processes, tgid)
        mapped = _by_file(parse_executable_mappings(self._processes.maps(tgid)), program)
        for file, exported_only in self._steps(mapped, program):
            self._known[file] = self._examined(tgid, mapped[file][0], exported_only=exported_only)
            if not exported_only:
                self._searched.add(file)
            if self._clock() >= until:
                return self._among(mapped), False
        return self._among(mapped), True

    def asyncio_sections(self, tgid: int) -> list[int]:
        """Addresses in the process of what `_asyncio` says about its objects: in its own file, or in that of an interpreter.

        Raises ProcessGone, NotPossibleHere.
        """
        program = _program(self._processes, tgid)
        mapped = _by_file(parse_executable_mappings(self._processes.maps(tgid)), program)
        files = [file for file in mapped if _is_asyncio(file)] + [file for file in mapped if _is_likely(file, program)]
        found = [base for file in files[:ASYNCIO_FILES_MAX] for base in self._sections(tgid, mapped[file])]
        return found[:INTERPRETERS_MAX]

    def _sections(self, tgid: int, mappings: list[Mapping]) -> list[int]:
        """Those of one file: one, more if it is mapped several times."""
        try:
            fd = open_library(self._processes, tgid, mappings[0])
        except (ProcessGone, NotPossibleHere, MalformedElf):
            return []
        try:
            elf = read_elf(fd)
            address = elf.section_address(ASYNCIO_SECTION)
            return [] if address is None else [base + address for base in bases(elf.segments, mappings)]
        except MalformedElf:
            return []
        finally:
            content.close(fd)

    def _steps(self, mapped: dict[_File, list[Mapping]], program: bytes) -> Iterator[tuple[_File, bool]]:
        """Files to examine, and whether only for what they export: the others take longer, and are for a process without any."""
        new = [file for file in mapped if file not in self._known]
        for file in new[: max(FILES_MAX - (len(mapped) - len(new)), 0)]:
            yield file, not _is_likely(file, program)
        if not any(map(self._known.get, mapped)):
            yield from ((file, False) for file in mapped if file in self._known and file not in self._searched)

    def _among(self, mapped: dict[_File, list[Mapping]]) -> list[MappedInterpreter]:
        found = []
        for file, mappings in mapped.items():
            if (known := self._known.get(file)) is not None:
                for base in bases(known.segments, mappings):
                    runtime, code_type, version = (base + one if one else 0 for one in known.addresses)
                    found.append(MappedInterpreter(mappings[0].shown_path, runtime, code_type, version))
        return found[:INTERPRETERS_MAX]

    def _examined(self, tgid: int, mapping: Mapping, *, exported_only: bool) -> _Found | None:
        try:
            fd = open_library(self._processes, tgid, mapping)
        except (ProcessGone, NotPossibleHere, MalformedElf):
            return None
        try:
            elf = read_elf(fd)
            addresses = _exported(elf)
            if not addresses and not exported_only:
                addresses = elf.static_data_addresses(SYMBOLS)
            if not addresses.get(RUNTIME):
                return None
            runtime, code_type, version = (addresses.get(name, 0) for name in SYMBOLS)
            return _Found(elf.segments, (runtime, code_type, version))
        except MalformedElf:
            return None
        finally:
            content.close(fd)


def _exported(elf: ElfFile) -> dict[str, int]:
    """Most files do not have the first one, and are not searched for the others."""
    runtime = elf.data_address(RUNTIME.encode())
    if runtime is None:
        return {}
    return {RUNTIME: runtime} | {name: elf.data_address(name.encode()) or 0 for name in SYMBOLS[1:]}


def _program(processes: Processes, tgid: int) -> bytes:
    try:
        return processes.link(tgid, "exe").removesuffix(b" (deleted)")
    except ExporterError:
        return b""


def _by_file(mappings: Iterable[Mapping], program: bytes) -> dict[_File, list[Mapping]]:
    """Executable mappings of each file, those that likely have an interpreter first."""
    found: dict[_File, list[Mapping]] = {}
    for mapping in mappings:
        file = mapping.device, mapping.inode, mapping.path
        if file in found:
            found[file].append(mapping)
        elif not mapping.path.startswith(b"/dev/"):
            found[file] = [mapping]
    return dict(sorted(found.items(), key=lambda item: not _is_likely(item[0], program)))


def _is_likely(file: _File, program: bytes) -> bool:
    path = file[2]
    return path == program or _LIKELY.fullmatch(path.rpartition(b"/")[2]) is not None


def _is_asyncio(file: _File) -> bool:
    return _ASYNCIO.fullmatch(file[2].rpartition(b"/")[2]) is not None
