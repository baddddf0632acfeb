"""Reads what belongs to tenants through a process that can be given up: its files may lie where nothing answers.

In: tgids, mappings, paths. Out: records, or an ExporterError; NoAnswer if the reader has not answered within the patience.
Partner: reader_program.py. For one thread at a time; each thread that reads has a reader of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from exporter.errors import ExporterError, MalformedElf, NoAnswer
from exporter.host.capabilities import READING
from exporter.host.child_process import ChildProcess
from exporter.host.eh_frame import Rule
from exporter.host.interpreters import MappedInterpreter
from exporter.host.libraries import LibraryKind, MappedLibrary, SkippedLibrary, SkipReason
from exporter.host.processes import Processes
from exporter.host.programs import Program
from exporter.host.reader_documents import (
    ExaminedLibrary,
    document_of_library,
    error_of,
    examined_of,
    interpreter_of,
    library_of,
    list_of,
    mapping_of,
    number_of,
    offsets_of,
    rule_of,
    text_of,
)
from exporter.host.reader_program import LIKELY_MAX
from exporter.host.unnamed_libraries import Examined

MODULE: Final = "exporter.host.reader_program"
_Form = TypeVar("_Form")

RuleAt = Callable[[int], Rule | None]
"""Raises NoAnswer."""


class Likely(NamedTuple):
    """A library that a process may map. file: its device and inode."""

    path: Path
    kind: LibraryKind
    file: tuple[int, int]


class TenantReader:
    """patience_seconds: how long an answer may take. The process is started by the first request."""

    def __init__(self, processes: Processes, patience_seconds: float) -> None:
        self._child = ChildProcess(MODULE, (str(processes.proc),), READING)
        self.patience_seconds = patience_seconds

    @property
    def tgid(self) -> int:
        """The process that has the examined library mapped."""
        return self._child.tgid

    @property
    def given_up(self) -> subprocess.Popen[bytes] | None:
        """The process that did not answer last: while it runs, what it reads still does not answer."""
        return self._child.given_up

    def start(self) -> None:
        """Start the process, so that the first answer comes soon. Raises NoAnswer."""
        self._child.start()

    def end(self) -> None:
        """End the process; a later request starts another."""
        self._child.end()

    def close(self) -> None:
        """End the process for good."""
        self._child.close()

    def libraries(self, tgids: Sequence[int]) -> Iterator[tuple[int, list[MappedLibrary] | ExporterError, float]]:
        """The libraries of each process that has some, or why it cannot be read; and the seconds of reading.

        Processes that took long are there as well.
        """

        def form(document: Any) -> list[tuple[int, list[MappedLibrary] | ExporterError, float]]:
            rows = map(list_of, list_of(document))
            return [(number_of(tgid), _libraries_or_error(found), number_of(ns) / 1e9) for tgid, found, ns in rows]

        yield from self._ask(form, "libraries", list(tgids))

    def unnamed(self, tgid: int) -> Examined:
        """Libraries of a process under other names; ask again until it is complete."""

        def form(document: Any) -> Examined:
            found, is_complete, left_out = list_of(document)
            return Examined([library_of(one) for one in list_of(found)], is_complete is True, number_of(left_out))

        return self._ask(form, "unnamed", tgid)

    def inspect(self, tgid: int, library: MappedLibrary, symbols: Collection[str]) -> ExaminedLibrary | SkippedLibrary:
        """The file that is mapped. The caller closes it; another request ends its page."""
        return self._examine(library, symbols, "inspect", tgid, document_of_library(library))

    def layers(
        self, tgid: int, library: MappedLibrary, symbols: Collection[str]
    ) -> Iterator[ExaminedLibrary | SkippedLibrary]:
        """What the library may be if an overlay hides it, and at last why it is not found; see libraries.inspect_layers()."""
        document = document_of_library(library)
        found = self._examine(library, symbols, "first_layer", tgid, document)
        while isinstance(found, ExaminedLibrary) or found.reason is SkipReason.MALFORMED:
            yield found
            found = self._examine(library, symbols, "next_layer", document)
        yield found

    def inspect_file(self, path: Path, kind: LibraryKind, symbols: Collection[str]) -> ExaminedLibrary | SkippedLibrary:
        """A file that no process has mapped yet. Raises MalformedElf, NoAnswer when it cannot be read."""
        return self._ask_examined(symbols, "inspect_file", str(path), kind.value)

    def read_again(self, found: ExaminedLibrary, symbols: Collection[str]) -> ExaminedLibrary:
        """The library that was examined last, as it is now, with the same descriptor. Raises MalformedElf, NoAnswer."""
        wanted = frozenset(symbols)

        def form(document: Any) -> ExaminedLibrary:
            return replace(found, offsets=offsets_of(document, wanted))

        return self._ask(form, "read_again", sorted(wanted))

    def release(self) -> None:
        """Let the reader close the library that it has examined last: an open file keeps its file system mounted."""
        self._ask(lambda _: None, "release")

    def likely(self, tgid: int, prefix: str | None) -> list[Likely]:
        """Libraries that lie in the root directory of a process, or of a Python environment in it."""

        def form(document: Any) -> list[Likely]:
            rows = map(list_of, list_of(document, LIKELY_MAX))
            return [
                Likely(_path_of(path), LibraryKind(kind), (number_of(device), number_of(inode)))
                for path, kind, device, inode in rows
            ]

        return self._ask(form, "likely", tgid, prefix)

    def prefixes(self, tgid: int) -> list[str]:
        """Prefixes of the Python environments of an interpreter; see likely_libraries.python_prefixes()."""
        return self._ask(lambda document: [os.fspath(_path_of(one)) for one in list_of(document)], "prefixes", tgid)

    def environment(
        self, tgid: int, names: Collection[str], *, with_copy: bool = True, expected: Collection[str] = ()
    ) -> dict[str, str]:
        """See environments.environment()."""
        return self._ask(_texts_of, "environment", tgid, sorted(names), with_copy, sorted(expected))

    def programs(self, tgid: int) -> list[Program]:
        """See programs.lineage()."""

        def form(document: Any) -> list[Program]:
            rows = map(list_of, list_of(document))
            return [Program(tuple(map(text_of, list_of(arguments))), text_of(path)) for arguments, path in rows]

        return self._ask(form, "programs", tgid)

    def mapped_libraries(self, tgid: int) -> frozenset[str]:
        """See programs.mapped_libraries()."""
        return self._ask(lambda document: frozenset(map(text_of, list_of(document))), "mapped_libraries", tgid)

    def files(self, tgid: int, addresses: Iterable[int]) -> dict[int, str]:
        """See symbols.by_files()."""

        def form(document: Any) -> dict[int, str]:
            return {number_of(address): text_of(text) for address, text in map(list_of, list_of(document))}

        return self._ask(form, "files", tgid, list(addresses))

    def interpreters_of(self, tgid: int) -> tuple[list[MappedInterpreter], bool]:
        """Python interpreters of a process, and whether all of its files have been examined; else ask again."""

        def form(document: Any) -> tuple[list[MappedInterpreter], bool]:
            found, is_complete = list_of(document)
            return [interpreter_of(one) for one in list_of(found)], is_complete is True

        return self._ask(form, "interpreters", tgid)

    def asyncio_sections_of(self, tgid: int) -> list[int]:
        """Where a process has the offsets of asyncio's objects; see Interpreters.asyncio_sections()."""
        return self._ask(lambda document: [number_of(one) for one in list_of(document)], "asyncio_sections", tgid)

    def rules_of(self, tgid: int) -> RuleAt:
        """The unwind rule of an address of the process; see eh_frame.FrameRules.at(). Until the next call."""
        self._ask(lambda _: None, "rules", tgid)
        return lambda address: self._ask(rule_of, "rule", address)

    def _examine(
        self, library: MappedLibrary, symbols: Collection[str], *request: Any
    ) -> ExaminedLibrary | SkippedLibrary:
        try:
            return self._ask_examined(symbols, *request)
        except MalformedElf as error:
            return SkippedLibrary(library, SkipReason.MALFORMED, f"{library.mapping.shown_path}: {error.one_line()}")

    def _ask_examined(self, symbols: Collection[str], *request: Any) -> ExaminedLibrary | SkippedLibrary:
        wanted = frozenset(symbols)
        answer = self._child.ask([*request, sorted(wanted)], self.patience_seconds)
        try:
            if isinstance(answer.content, dict) and "error" in answer.content:
                raise error_of(answer.content)
            examined = examined_of(answer.content, answer.descriptors, wanted)
        except BaseException as error:
            for fd in answer.descriptors:
                os.close(fd)
            if isinstance(error, (ValueError, KeyError, TypeError)):
                self._child.end()
                raise NoAnswer(f"the reader's answer has another form: {error}") from error
            raise
        return examined

    def _ask(self, form: Callable[[Any], _Form], *request: Any) -> _Form:
        content, descriptors = self._child.ask(list(request), self.patience_seconds)
        for fd in descriptors:
            os.close(fd)
        if isinstance(content, dict) and "error" in content:
            raise error_of(content)
        try:
            return form(content)
        except (ValueError, KeyError, TypeError) as error:
            self._child.end()
            raise NoAnswer(f"the reader's answer has another form: {error}") from error


def _libraries_or_error(document: Any) -> list[MappedLibrary] | ExporterError:
    if isinstance(document, dict):
        return error_of(document)
    return [library_of(one) for one in list_of(document)]


def _path_of(document: Any) -> Path:
    if not isinstance(document, str) or "\0" in document:
        raise ValueError("a path of another form")
    return Path(document)


def _texts_of(document: Any) -> dict[str, str]:
    return {text_of(name): text_of(value) for name, value in mapping_of(document).items()}
