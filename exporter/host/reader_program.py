"""Reads what belongs to tenants: mappings, libraries, environments, unwind rules. A program of its own, started by reader.py.

In: requests on a socket, one at a time. Out: answers. It keeps only the capabilities that reading needs, so that a tenant who
finds a defect in a parser here gets none that loads programs into the kernel. A file that does not answer hangs this program
alone.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from exporter.errors import ExporterError
from exporter.host import capabilities, libraries
from exporter.host.answering import answer_requests
from exporter.host.capabilities import READING
from exporter.host.eh_frame import FrameRules
from exporter.host.elf import read_elf
from exporter.host.environments import environment
from exporter.host.interpreters import Interpreters
from exporter.host.libraries import LibraryKind, OpenedLibrary, SkippedLibrary
from exporter.host.likely_libraries import in_root, of_python, python_prefixes
from exporter.host.processes import Processes
from exporter.host.programs import lineage, mapped_libraries
from exporter.host.reader_documents import document_of_error, document_of_library, document_of_opened, library_of
from exporter.host.unnamed_libraries import UnnamedLibraries

MEMORY_BYTES_MAX: Final = 512 << 20
DESCRIPTORS_MAX: Final = 128
LIKELY_MAX: Final = 1_024
LONG_NS: Final = 2_000_000
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


class Reader:
    """Answers requests. Holds at most one library open, until the next one or `release`."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._opened: OpenedLibrary | None = None
        self._page = 0
        self._layers: Iterator[OpenedLibrary | SkippedLibrary] = iter(())
        self._rules: FrameRules | None = None
        self._unnamed = UnnamedLibraries(processes)
        self._interpreters = Interpreters(processes)
        self._libc = _libc()

    def answer(self, request: Any, _descriptors: Sequence[int]) -> tuple[Any, Sequence[int]]:
        """request: [name, argument, …]."""
        name, *arguments = request
        handle: Callable[..., tuple[Any, Sequence[int]]] = getattr(self, f"do_{name}")
        try:
            return handle(*arguments)
        except ExporterError as error:
            return document_of_error(error), ()
        except (OSError, ValueError) as error:
            return {"error": "malformed", "message": f"cannot be read: {error}", "remedy": ""}, ()

    def do_libraries(self, tgids: Iterable[int]) -> tuple[Any, Sequence[int]]:
        """[tgid, its libraries or an error, nanoseconds of reading] of each process that has some or took long."""
        found: list[Any] = []
        for tgid in tgids:
            started_ns = time.monotonic_ns()
            answer: Any
            try:
                answer = [document_of_library(one) for one in self._unnamed.libraries(tgid)]
            except ExporterError as error:
                answer = document_of_error(error)
            took_ns = time.monotonic_ns() - started_ns
            if answer or took_ns > LONG_NS:
                found.append([tgid, answer, took_ns])
        return found, ()

    def do_unnamed(self, tgid: int) -> tuple[Any, Sequence[int]]:
        """[libraries under other names, whether it is complete, files left out]; some milliseconds at a time."""
        found, is_complete, left_out = self._unnamed.examine(tgid)
        return [[document_of_library(one) for one in found], is_complete, left_out], ()

    def do_inspect(self, tgid: int, library: Any, symbols: Sequence[str]) -> tuple[Any, Sequence[int]]:
        return self._hold(libraries.inspect(self._processes, tgid, library_of(library)), symbols)

    def do_first_layer(self, tgid: int, library: Any, symbols: Sequence[str]) -> tuple[Any, Sequence[int]]:
        """The first of the files that a hidden library may be; the others follow by `next_layer`."""
        self._layers = libraries.inspect_layers(self._processes, tgid, library_of(library))
        return self.do_next_layer(library, symbols)

    def do_next_layer(self, library: Any, symbols: Sequence[str]) -> tuple[Any, Sequence[int]]:
        return self._hold(next(self._layers, libraries.hidden(library_of(library))), symbols)

    def do_inspect_file(self, path: str, kind: str, symbols: Sequence[str]) -> tuple[Any, Sequence[int]]:
        return self._hold(libraries.inspect_file(Path(path), LibraryKind(kind)), symbols)

    def do_read_again(self, symbols: Sequence[str]) -> tuple[Any, Sequence[int]]:
        """File offset of each function found in the library that is open."""
        if self._opened is None:
            raise ValueError("no library is open")
        elf = read_elf(self._opened.fd)
        offsets = elf.symbol_offsets(symbols)
        _read_pages(self._opened.fd, offsets.values())
        return dict(offsets), ()

    def do_release(self) -> tuple[Any, Sequence[int]]:
        self._release()
        return None, ()

    def do_likely(self, tgid: int, prefix: str | None) -> tuple[Any, Sequence[int]]:
        """[path, kind, device, inode] of libraries in a process's root directory, or of a Python environment in it."""
        root = self._processes.proc / str(self._processes.readable_id(tgid)) / "root"
        found: list[Any] = []
        for path, kind in in_root(root) if prefix is None else of_python(root, prefix):
            try:
                status = os.stat(path)  # noqa: PTH116 - follows links
            except (OSError, ValueError):
                continue
            found.append([str(path), kind.value, status.st_dev, status.st_ino])
            if len(found) >= LIKELY_MAX:
                break
        return found, ()

    def do_prefixes(self, tgid: int) -> tuple[Any, Sequence[int]]:
        return sorted(python_prefixes(self._processes, tgid)), ()

    def do_environment(
        self, tgid: int, names: Sequence[str], with_copy: bool = True, expected: Sequence[str] = ()
    ) -> tuple[Any, Sequence[int]]:
        found = environment(self._processes, tgid, frozenset(names), with_copy=with_copy, expected=frozenset(expected))
        return found, ()

    def do_programs(self, tgid: int) -> tuple[Any, Sequence[int]]:
        """[arguments, path] of the process and of its ancestors."""
        return [[list(one.arguments), one.path] for one in lineage(self._processes, tgid)], ()

    def do_mapped_libraries(self, tgid: int) -> tuple[Any, Sequence[int]]:
        return sorted(mapped_libraries(self._processes, tgid))[:LIKELY_MAX], ()

    def do_files(self, tgid: int, addresses: Sequence[int]) -> tuple[Any, Sequence[int]]:
        """[address, text] of those that lie in a mapped file."""
        from exporter.host.symbols import by_files  # noqa: PLC0415 - its imports take memory, and few readers need it

        return list(by_files(self._processes.maps(tgid), addresses).items()), ()

    def do_interpreters(self, tgid: int) -> tuple[Any, Sequence[int]]:
        """[[path, three addresses] of each, whether all files have been examined]; some milliseconds at a time."""
        found, is_complete = self._interpreters.examine(tgid)
        return [[list(one) for one in found], is_complete], ()

    def do_asyncio_sections(self, tgid: int) -> tuple[Any, Sequence[int]]:
        """Their addresses."""
        return self._interpreters.asyncio_sections(tgid), ()

    def do_rules(self, tgid: int) -> tuple[Any, Sequence[int]]:
        """From now on `rule` is about this process."""
        if self._rules is not None:
            self._rules.__exit__()
        self._rules = FrameRules(self._processes, tgid).__enter__()
        return None, ()

    def do_rule(self, address: int) -> tuple[Any, Sequence[int]]:
        rule = self._rules.at(address) if self._rules else None
        return None if rule is None else list(rule), ()

    def _hold(self, found: OpenedLibrary | SkippedLibrary, symbols: Sequence[str]) -> tuple[Any, Sequence[int]]:
        self._release()
        if isinstance(found, SkippedLibrary):
            return document_of_opened(found, {}, 0), ()
        self._opened = found
        offsets = found.elf.symbol_offsets(symbols)
        self._map_page(found)
        _read_pages(found.fd, offsets.values())
        handle = os.open(f"/proc/self/fd/{found.fd}", os.O_PATH | os.O_CLOEXEC)
        return document_of_opened(found, offsets, self._page), (handle,)

    def _map_page(self, found: OpenedLibrary) -> None:
        """Without touching it: the kernel then says in which inode a uprobe on this file is."""
        page = self._libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE, found.fd, 0)
        self._page = 0 if page in (_MAP_FAILED, None) else int(page)

    def _release(self) -> None:
        if self._page:
            self._libc.munmap(self._page, mmap.PAGESIZE)
            self._page = 0
        opened, self._opened = self._opened, None  # whatever happens, it is not closed twice
        if opened is not None:
            opened.close()


def _read_pages(fd: int, offsets: Iterable[int]) -> None:
    """Have the page of each function in memory: the kernel reads them while it places a probe, with locks held."""
    for page in sorted({offset // mmap.PAGESIZE for offset in offsets}):
        os.pread(fd, 1, page * mmap.PAGESIZE)


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return libc


def main() -> None:
    """Arguments: the folder of the package, the descriptor of the socket, the root of /proc."""
    stream, proc = socket.socket(fileno=int(sys.argv[2])), Path(sys.argv[3])
    capabilities.keep_only(READING)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS_MAX, DESCRIPTORS_MAX))
    answer_requests(stream, Reader(Processes(proc)).answer)
