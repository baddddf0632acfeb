"""The environment of a process, also of one that has overwritten it.

In: a tgid. Out: the wanted variables, printable. /proc/TGID/environ is the memory that the program was started with. Programs
that change their title write over it: setproctitle() of Python and of BSD, PostgreSQL, nginx. Before, they copy the variables
elsewhere, and libc's `environ` points to the copy, by which they are then found. So are variables that it has set itself: a
worker of torch.multiprocessing.spawn() sets RANK in os.environ, which calls setenv(3).
Source: environ(7); src/backend/utils/misc/ps_status.c of PostgreSQL, from which Python's setproctitle is derived.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from typing import Final

from exporter.errors import ExporterError
from exporter.files import content
from exporter.host.elf import bases, read_elf
from exporter.host.libraries import open_library
from exporter.host.mappings import Mapping, parse_executable_mappings
from exporter.host.processes import ENVIRON_BYTES_MAX, VALUE_CHARACTERS_MAX, Processes, parse_environ

VARIABLES_MAX: Final = 1024
"""How many are read of a copy; a whole environment has as many as fit into ENVIRON_BYTES_MAX."""
_MAPS_BYTES_MAX: Final = 1024 * 1024  # some 10,000 mappings, in 10 ms: a tick waits for it
_VARIABLE_BYTES_MAX: Final = 64 + 4 * VALUE_CHARACTERS_MAX
_EXAMINED_BYTES: Final = 4096
_POINTER: Final = struct.Struct("<Q")
_POINTERS_AT_ONCE: Final = 512
_SYMBOLS: Final = (b"environ", b"__environ", b"_environ")
_FILES_MAX: Final = 4
# glibc before 2.34 and since; musl, whose loader is the library
_LIBC: Final = re.compile(rb"(libc(-[0-9.]+)?|libc\.musl-\w+|ld-musl-\w+)\.so(\.[0-9.]+)?")


def environment(
    processes: Processes,
    tgid: int,
    names: frozenset[str],
    *,
    with_copy: bool = True,
    expected: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """The variables among `names`: as they were when the program started, unless it has overwritten them since.

    expected: variables of which the program may set one itself: without any of them, those that it has now are looked for.
    with_copy: whether to look for variables in its memory at all, which takes half a millisecond, and 40 where a process makes it
    hard. When a name is set twice, the first one counts, as in getenv(3). Raises ProcessGone, NotPossibleHere.
    """
    area = processes.read(tgid, "environ", ENVIRON_BYTES_MAX + 1)
    found = parse_environ(area, names)
    is_complete = not expected or not found.keys().isdisjoint(expected)
    if not with_copy or (is_whole(area) and is_complete):
        return found
    return found | parse_environ(b"".join(_copied(processes, tgid, names)), names)


def is_whole(area: bytes) -> bool:
    """Whether no title was written over it: its beginning and its end hold nothing but variables.

    A title is written from the beginning, and often the rest is filled. In between may be hundreds of thousands of variables.
    """
    if len(area) > ENVIRON_BYTES_MAX:
        return True
    head, tail = area[:_EXAMINED_BYTES].split(b"\0"), area[-_EXAMINED_BYTES:].split(b"\0")
    whole = (*head[:-1], *tail[1:-1])  # variables that are not cut
    return area.endswith(b"\0") and all(b"=" in variable for variable in whole)


def _copied(processes: Processes, tgid: int, names: frozenset[str]) -> Iterator[bytes]:
    """Variables that `environ` points to, each with its NUL; none where they cannot be read."""
    wanted = tuple(name.encode("utf-8", "surrogateescape") + b"=" for name in names)
    try:
        addresses = list(_addresses_of_environ(processes, tgid))
        memory = os.open(f"{processes.proc}/{processes.readable_id(tgid)}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ExporterError):
        return
    try:
        pointers = next(filter(None, (list(_pointers(memory, address)) for address in addresses)), ())
        for pointer in pointers:
            variable = _read(memory, pointer, _VARIABLE_BYTES_MAX)
            if variable.startswith(wanted):
                yield variable.partition(b"\0")[0] + b"\0"
    finally:
        os.close(memory)


def _pointers(memory: int, address_of_environ: int) -> Iterator[int]:
    """The words of the list that ends with a NULL."""
    start = _read(memory, address_of_environ, _POINTER.size)
    at = _POINTER.unpack(start)[0] if len(start) == _POINTER.size else 0
    for _ in range(VARIABLES_MAX // _POINTERS_AT_ONCE if at else 0):
        piece = _read(memory, at, _POINTERS_AT_ONCE * _POINTER.size)
        for (pointer,) in _POINTER.iter_unpack(piece[: len(piece) // _POINTER.size * _POINTER.size]):
            if not pointer:
                return
            yield pointer
        if len(piece) < _POINTERS_AT_ONCE * _POINTER.size:
            return
        at += len(piece)


def _read(memory: int, address: int, limit_bytes: int) -> bytes:
    """Less than the limit where the mapping ends; nothing where none is."""
    try:
        return os.pread(memory, limit_bytes, address)
    except (OSError, OverflowError):
        return b""


def _addresses_of_environ(processes: Processes, tgid: int) -> Iterator[int]:
    """Where libc's variable is. A program that names it has a copy of its own, which libc then uses as well: it comes first."""
    program = processes.link(tgid, "exe").removesuffix(b" (deleted)")
    mapped: dict[bytes, list[Mapping]] = {}
    for mapping in parse_executable_mappings(processes.read(tgid, "maps", _MAPS_BYTES_MAX)):
        if mapping.path == program or _LIBC.fullmatch(mapping.path.rpartition(b"/")[2]):
            mapped.setdefault(mapping.path, []).append(mapping)
    for path in sorted(mapped, key=lambda path: path != program)[:_FILES_MAX]:
        try:
            yield from _addresses_in(processes, tgid, mapped[path])
        except ExporterError:
            continue


def _addresses_in(processes: Processes, tgid: int, mapped: list[Mapping]) -> list[int]:
    """Where the variable is in the process, if this file defines it: at most one. mapped: executable mappings of the file."""
    fd = open_library(processes, tgid, mapped[0])
    try:
        file = read_elf(fd)
        addresses = [address for name in _SYMBOLS if (address := file.data_address(name)) is not None]
    finally:
        content.close(fd)
    return [base + address for base in bases(file.segments, mapped) for address in addresses][:1]
