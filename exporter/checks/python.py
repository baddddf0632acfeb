"""Python interpreters in running GPU processes: whether their frames can be read, so that chains name lines of Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.errors import ExporterError, NotReadable
from exporter.host.interpreters import Interpreters, MappedInterpreter
from exporter.host.processes import Processes
from exporter.host.unnamed_libraries import UnnamedLibraries
from exporter.kernel import loader
from exporter.kernel.python_frames import PythonFrames
from exporter.python.interpreter import Interpreter, InterpreterSymbols, Refusal, interpreter_of
from exporter.python.memory import BoundedMemory, ReadMemory

SUBJECT: Final = "python"
ROWS_MAX: Final = 16
"""Kinds of interpreters that are shown: a container may have its own copy."""
_NAME: Final = "Python"
_SLICES_MAX: Final = 200
"""Parts of the search in one process, 10 ms each."""
_TGIDS_SHOWN: Final = 3
_AGAIN: Final = "run `check` again while the job runs; if this stays, report the version and build of Python"
_REPORT: Final = "native functions are shown; report the version and build of Python"
_REASONS: Final = {
    Refusal.SYMBOLS: (
        "its file has no symbols of the interpreter",
        "native functions are shown; use a build of Python that is not stripped of its symbol table",
    ),
    Refusal.UNREADABLE: ("its memory cannot be read", _AGAIN),
    Refusal.VERSION: (
        "it is newer than Python 3.14, or a preview of a version",
        "native functions are shown; use a newer exporter",
    ),
    Refusal.CODE_TYPE: ("its code objects are those of no known version", _REPORT),
    Refusal.NOT_STARTED: ("it has not started yet", _AGAIN),
    Refusal.THREADS: ("its threads are not found", _AGAIN),
    Refusal.FRAMES: ("its frames are not found", _AGAIN),
}
"""Why frames cannot be read, and what to do."""


class FoundInterpreter(NamedTuple):
    """path: of its file. build: such as `3.13, free-threaded`, "" if it is not known. refusal: None if its frames can be read."""

    path: str
    build: str
    refusal: Refusal | None


def check(config: Config) -> Iterator[Check]:
    """One for each kind of interpreter in GPU processes."""
    if not config.stacks.with_python:
        found = "no lines of Python: disabled by --stacks.python=false"
        yield Check(_NAME, CheckState.WARNING, found, "leave --stacks.python on")
        return
    processes = Processes(config.procfs)
    mapped = dict(_in_gpu_processes(processes))
    if not any(mapped.values()):
        yield Check(_NAME, CheckState.OK, "no GPU process has a Python interpreter at the moment")
        return
    try:
        kernel = loader.load(subjects=(*loader.ALWAYS, "cuda", SUBJECT))
    except ExporterError as error:
        yield Check(_NAME, CheckState.WARNING, f"frames cannot be read: {error}", error.remedy)
        return
    with closing(kernel):
        frames = PythonFrames(kernel)
        if not frames.is_possible:
            found = f"frames cannot be read: {kernel.failures.get(SUBJECT, 'the program did not load')}"
            yield Check(_NAME, CheckState.WARNING, found, "native functions are shown; use a newer kernel")
            return
        found_in: dict[FoundInterpreter, list[int]] = {}
        for tgid, interpreters in mapped.items():
            for one in interpreters:
                found_in.setdefault(examined(partial(frames.read, tgid), one), []).append(tgid)
    yield from rows(found_in)


def _in_gpu_processes(processes: Processes) -> Iterator[tuple[int, Sequence[MappedInterpreter]]]:
    libraries, interpreters = UnnamedLibraries(processes), Interpreters(processes)
    for tgid in processes.tgids():
        try:
            if not libraries.all_libraries(tgid):
                continue
            found, is_complete = interpreters.examine(tgid)
            for _ in range(_SLICES_MAX):
                if is_complete:
                    break
                found, is_complete = interpreters.examine(tgid)
        except ExporterError:  # it has ended, or may not be read: the check of libraries counts those
            continue
        yield tgid, found


def examined(read: ReadMemory, mapped: MappedInterpreter) -> FoundInterpreter:
    """read: memory of the process."""
    found = interpreter_of(read, InterpreterSymbols(mapped.runtime, mapped.code_type, mapped.version))
    if isinstance(found, Interpreter):
        major, minor = found.version
        build = f"{major}.{minor}{', free-threaded' if found.is_free_threaded else ''}"
        return FoundInterpreter(mapped.path, build, None)
    return FoundInterpreter(mapped.path, _version(read, mapped), found)


def _version(read: ReadMemory, mapped: MappedInterpreter) -> str:
    """As its variable Py_Version has it, which there is since 3.11."""
    if not mapped.version:
        return ""
    try:
        number = BoundedMemory(read, 1).word(mapped.version)
    except NotReadable:
        return ""
    return f"{number >> 24 & 0xFF}.{number >> 16 & 0xFF}"


def rows(found_in: Mapping[FoundInterpreter, Sequence[int]]) -> Iterator[Check]:
    """found_in: with the processes that have it. Those whose frames cannot be read come first."""
    ordered = sorted(found_in, key=lambda one: (one.refusal is None, one.path, one.build))
    for one in ordered[:ROWS_MAX]:
        tgids = found_in[one]
        more = f" and {len(tgids) - _TGIDS_SHOWN} more" if len(tgids) > _TGIDS_SHOWN else ""
        version = f"Python {one.build}" if one.build else "Python of an unknown version"
        where = f"{version} in {one.path}, pid {', '.join(map(str, tgids[:_TGIDS_SHOWN]))}{more}"
        if one.refusal is None:
            yield Check(_NAME, CheckState.OK, f"{where}: chains name lines of Python")
        else:
            reason, remedy = _REASONS[one.refusal]
            yield Check(_NAME, CheckState.WARNING, f"{where}: no lines of Python, {reason}", remedy)
    if len(ordered) > ROWS_MAX:
        found = f"and {len(ordered) - ROWS_MAX} more kinds of interpreters"
        yield Check(_NAME, CheckState.WARNING, found, "run `check` with fewer jobs to see them")
