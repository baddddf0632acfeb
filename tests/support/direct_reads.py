"""Reads of processes in a /proc of files, without a process for it: these files answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from exporter.host.environments import environment
from exporter.host.processes import Processes
from exporter.host.programs import Program, lineage, mapped_libraries
from exporter.host.symbols import FilesAt, by_files


class DirectReads:
    """As host/tenant_reads.py."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    def environment(self, tgid: int, names: Collection[str], expected: Collection[str] = ()) -> Mapping[str, str]:
        return environment(self._processes, tgid, frozenset(names), expected=frozenset(expected))

    def programs(self, tgid: int) -> Iterable[Program]:
        return lineage(self._processes, tgid)

    def mapped_libraries(self, tgid: int) -> Collection[str]:
        return mapped_libraries(self._processes, tgid)


def files_of(processes: Processes) -> FilesAt:
    """As TenantReader.files()."""

    def files_at(tgid: int, addresses: Sequence[int]) -> Mapping[int, str]:
        return by_files(processes.maps(tgid), addresses)

    return files_at
