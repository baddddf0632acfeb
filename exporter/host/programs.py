"""The program that a process runs, those of its ancestors, and the libraries that it has mapped.

In: a tgid. Out: command lines, paths of executables, names of libraries: bounded and printable, since the processes choose them.
What cannot be read is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.text.printable import printable_bytes

CMDLINE_BYTES_MAX: Final = 4 * 1024
ARGUMENTS_MAX: Final = 32  # a module or script comes after a handful of the interpreter's flags
ARGUMENT_CHARACTERS_MAX: Final = 512
ANCESTORS_MAX: Final = 8
_MAPS_BYTES_MAX: Final = 8 * 1024 * 1024
# Only the first mapping of a library, at offset 0 of its file.
_LIBRARY: Final = re.compile(
    rb"^[^ \n]+ [^ \n]+ 00000000 [^ \n]+ [1-9][0-9]* +(/[^\n]*\.so)(?:\.[0-9.]+)?(?: \(deleted\))?$", re.MULTILINE
)


class Program(NamedTuple):
    """arguments: the command line, or the title that replaced it. path: of the executable."""

    arguments: tuple[str, ...]
    path: str


def lineage(processes: Processes, tgid: int) -> Iterator[Program]:
    """The program of a process, of its parent, and so on: at most ANCESTORS_MAX above it. Each is read when iterated."""
    seen: set[int] = set()
    while tgid and tgid not in seen and len(seen) <= ANCESTORS_MAX:
        seen.add(tgid)
        yield program(processes, tgid)
        tgid = _parent(processes, tgid)


def program(processes: Processes, tgid: int) -> Program:
    try:
        cmdline = processes.read(tgid, "cmdline", CMDLINE_BYTES_MAX)
    except (ProcessGone, NotPossibleHere):
        cmdline = b""
    try:
        path = printable_bytes(processes.link(tgid, "exe"), ARGUMENT_CHARACTERS_MAX)
    except (ProcessGone, NotPossibleHere):
        path = ""
    return Program(parse_cmdline(cmdline), path)


def parse_cmdline(cmdline: bytes) -> tuple[str, ...]:
    """Before: b"VLLM::EngineCore\\0\\0\\0". After: ("VLLM::EngineCore",). Zeros pad a title."""
    arguments = cmdline.rstrip(b"\0").split(b"\0")[:ARGUMENTS_MAX]
    if arguments == [b""]:
        return ()
    return tuple(printable_bytes(argument, ARGUMENT_CHARACTERS_MAX) for argument in arguments)


def mapped_libraries(processes: Processes, tgid: int) -> frozenset[str]:
    """Paths of the shared libraries that a process has mapped, in its own view, without the version after `.so`."""
    try:
        maps = processes.read(tgid, "maps", _MAPS_BYTES_MAX)
    except (ProcessGone, NotPossibleHere):
        return frozenset()
    return frozenset(printable_bytes(path, ARGUMENT_CHARACTERS_MAX) for path in _LIBRARY.findall(maps))


def _parent(processes: Processes, tgid: int) -> int:
    try:
        return processes.stat(tgid).parent_tgid
    except (ProcessGone, NotPossibleHere):
        return 0
