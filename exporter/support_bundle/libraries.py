"""GPU libraries that running processes map: build id, functions found, operations that are missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

from exporter.errors import ExporterError
from exporter.host import libraries
from exporter.host.libraries import LibraryKind, MappedLibrary, SkippedLibrary
from exporter.host.processes import Processes
from exporter.host.unnamed_libraries import UnnamedLibraries
from exporter.kernel.operations import OPERATIONS, wanted_symbols
from exporter.probes.file_prober import API_OF


def gpu_libraries(processes: Processes) -> list[dict[str, Any]]:
    """One entry for each file."""
    unnamed = UnnamedLibraries(processes)
    users: Counter[tuple[LibraryKind, int, int, bytes]] = Counter()
    first: dict[tuple[LibraryKind, int, int, bytes], tuple[int, MappedLibrary]] = {}
    for tgid in processes.tgids():
        try:
            mapped = unnamed.all_libraries(tgid)
        except ExporterError:
            continue
        for library in mapped:
            key = (library.kind, library.mapping.device, library.mapping.inode, library.mapping.path)
            users[key] += 1
            first.setdefault(key, (tgid, library))
    return [
        {
            "path": one.mapping.shown_path,
            "kind": one.kind.value,
            "processes": users[key],
            **_inspected(processes, tgid, one),
        }
        for key, (tgid, one) in first.items()
    ]


def _inspected(processes: Processes, tgid: int, library: MappedLibrary) -> dict[str, Any]:
    found = libraries.inspect(processes, tgid, library)
    if isinstance(found, SkippedLibrary):
        return {"skipped": found.reason.value, "detail": found.detail}
    api = API_OF[library.kind]
    with found:
        symbols = found.elf.symbol_offsets(wanted_symbols(api))
        return {
            "soname": found.elf.soname,
            "machine": found.elf.machine,
            "size_bytes": found.elf.size_bytes,
            "build_id": found.elf.build(),
            "functions": symbols,
            "missing_operations": [
                one.name for one in OPERATIONS if one.api is api and not any(name in symbols for name in one.symbols())
            ],
        }
