"""GPU libraries: each file that a running process maps, and which of its functions would be probed."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.checks.check import Check, CheckState
from exporter.config import Config
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host import libraries
from exporter.host.libraries import LibraryKind, MappedLibrary, SkippedLibrary
from exporter.host.processes import Processes
from exporter.host.unnamed_libraries import UnnamedLibraries, has_driver
from exporter.kernel.operations import OPERATIONS, wanted_symbols
from exporter.probes.file_prober import API_OF


def check(config: Config) -> Iterator[Check]:
    """One for each file."""
    processes = Processes(config.procfs)
    unnamed = UnnamedLibraries(processes)
    unreadable = seen = 0
    files: set[tuple[LibraryKind, int, int, bytes]] = set()
    for tgid in processes.tgids():
        seen += 1
        try:
            mapped = unnamed.all_libraries(tgid)
            is_incomplete = has_driver(mapped) and not any(one.kind is LibraryKind.RUNTIME for one in mapped)
            comm = processes.comm(tgid) if is_incomplete else ""
        except ProcessGone:
            continue
        except NotPossibleHere:
            unreadable += 1
            continue
        for library in mapped:
            file = (library.kind, library.mapping.device, library.mapping.inode, library.mapping.path)
            if file not in files:
                files.add(file)
                yield _library(processes, tgid, library)
        if is_incomplete:
            yield _without_runtime(tgid, comm)
    if 2 * unreadable > seen:
        found = f"/proc/PID/maps of {unreadable} of {seen} processes cannot be read (permission denied): they are not traced"
        remedy = "run with CAP_SYS_PTRACE; if it does, a security module forbids it: see `dmesg`, `ausearch -m AVC`"
        yield Check("libraries", CheckState.WARNING, found, remedy)
    elif not files:
        found = "no process uses CUDA or NCCL at the moment"
        yield Check("libraries", CheckState.WARNING, found, "start a job: its libraries are found automatically")


def _without_runtime(tgid: int, comm: str) -> Check:
    found = f"process {tgid} ({comm}) uses the CUDA driver, and no CUDA runtime was found in its files"
    remedy = "if one is linked statically and stripped, only its driver calls are measured: keep the symbol table"
    return Check("runtime library", CheckState.WARNING, found, remedy)


def _library(processes: Processes, tgid: int, library: MappedLibrary) -> Check:
    name = f"{library.kind.value} library"
    inspected = libraries.inspect(processes, tgid, library)
    if isinstance(inspected, SkippedLibrary):
        return Check(name, CheckState.WARNING, f"{inspected.detail}; not probed")
    api = API_OF[library.kind]
    with inspected:
        symbols = tuple(sorted(inspected.elf.symbol_offsets(wanted_symbols(api))))
    operations = [operation for operation in OPERATIONS if operation.api is api]
    present = sum(any(symbol in symbols for symbol in operation.symbols()) for operation in operations)
    found = f"{library.mapping.shown_path}: {present} of {len(operations)} operations, {len(symbols)} functions"
    if not symbols:
        return Check(name, CheckState.WARNING, f"{found}; not probed")
    return Check(name, CheckState.OK, found, symbols=symbols)
