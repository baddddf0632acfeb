"""When the files of a process are searched for libraries under other names; and a line in the log if it has no runtime.

In: the named libraries of processes, a reader. Out: further libraries. See host/unnamed_libraries.py.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from exporter.errors import ExporterError, NoAnswer
from exporter.host.libraries import LibraryKind, MappedLibrary
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.unnamed_libraries import Examined, has_driver
from exporter.text.printable import printable_bytes

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 10.0
"""A process may load more; without new files a search costs a reading of its mappings."""
AFTER_NO_ANSWER_SECONDS: Final = 600.0
PROCESSES_MAX: Final = 8_192
PROGRAMS_MAX: Final = 256
_PATH_CHARACTERS_MAX: Final = 256
_NONE: Final = -1  # whatever reader it is


class UnnamedSearch:
    """count_unanswered: a search was given up, since a file did not answer. count_left_out: a process maps too many files."""

    def __init__(
        self,
        processes: Processes,
        count_unanswered: Callable[[NoAnswer], None],
        count_left_out: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processes = processes
        self._count_unanswered = count_unanswered
        self._count_left_out = count_left_out
        self._clock = clock
        self._again: dict[int, tuple[float, int]] = {}  # of a process: when, unless its reader is another one by then
        self._without_runtime: set[bytes] = set()
        self._partly_examined: set[int] = set()

    def steps(self, tgid: int, mapped: Sequence[MappedLibrary], reader: TenantReader) -> Iterator[list[MappedLibrary]]:
        """What is found in a process in each step; nothing if it was searched a moment ago, or does not use CUDA."""
        again_at, of_reader = self._again.get(tgid, (0.0, 0))
        if not has_driver(mapped) or (self._clock() < again_at and of_reader in (reader.tgid, _NONE)):
            return
        self._note(tgid, AGAIN_SECONDS, reader.tgid)
        try:
            examined = Examined([], is_complete=False)
            while not examined.is_complete:
                examined = reader.unnamed(tgid)
                yield examined.libraries
        except NoAnswer as error:
            self._note(tgid, AFTER_NO_ANSWER_SECONDS, _NONE)
            self._count_unanswered(NoAnswer(f"files of process {tgid}: {error}"))
            return
        except ExporterError:
            return
        self._note_left_out(tgid, examined.left_out)
        self._report_runtime(tgid, [*mapped, *examined.libraries])

    def _note(self, tgid: int, seconds: float, of_reader: int) -> None:
        now = self._clock()
        if len(self._again) >= PROCESSES_MAX:
            self._again = {one: (at, reader) for one, (at, reader) in self._again.items() if at > now}
        if len(self._again) < PROCESSES_MAX:
            self._again[tgid] = (now + seconds, of_reader)

    def partly_examined(self) -> set[int]:
        """Living processes with files that are not examined: a library of theirs that is not found may be mapped all the same."""
        self._partly_examined = set(filter(self._processes.is_alive, self._partly_examined))
        return self._partly_examined

    def _note_left_out(self, tgid: int, left_out: int) -> None:
        """Counted once for each process."""
        if not left_out:
            self._partly_examined.discard(tgid)
        elif tgid not in self._partly_examined:
            self._partly_examined.add(tgid)
            self._count_left_out(f"{left_out} files of process {tgid} are not examined: too many are mapped")

    def _report_runtime(self, tgid: int, found: Collection[MappedLibrary]) -> None:
        """Say once of each program that it may have a runtime that cannot be seen."""
        if any(library.kind is LibraryKind.RUNTIME for library in found):
            return
        try:
            program = self._processes.link(tgid, "exe")
        except ExporterError:
            return
        if program not in self._without_runtime and len(self._without_runtime) < PROGRAMS_MAX:
            self._without_runtime.add(program)
            log.info(
                "process %d (%s) uses the CUDA driver, and no CUDA runtime was found in its files: if one is linked statically"
                " and stripped, its driver calls are measured and its runtime calls are not",
                tgid,
                printable_bytes(program, _PATH_CHARACTERS_MAX),
            )
