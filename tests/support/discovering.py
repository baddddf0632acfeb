"""A Discovery at work in a test's own process, and what it finds counted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpustall_standin as standin
from exporter.config.probes import AttachKind
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.kernel.abi import Api
from exporter.kernel.loader import Kernel
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.tables import Tables
from exporter.probes.discovery import Discovery
from exporter.probes.proc_walk import ProcWalk
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import tracer

LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libnccl.so.2")


@dataclass
class Scene:
    """A Discovery at work in this process."""

    kernel: Kernel
    tables: Tables
    discovery: Discovery
    reader: TenantReader

    def walk_all(self) -> None:
        """One whole walk through /proc."""
        ProcWalk(self.discovery, Processes(), str).whole(self.reader)

    def calls(self, tgid: int) -> dict[str, int]:
        """Operation -> calls that were counted of one process."""
        reading = self.tables.read()
        numbers = [number for number, row in reading.processes.items() if row.tgid == tgid]
        return {
            OPERATIONS[key.operation].name: row.calls
            for key, row in reading.operations.items()
            if key.process in numbers
        }

    def probed(self, folder: Path) -> list[str]:
        """Names of the files of a folder that are probed, each as often as it is."""
        return sorted(Path(one.path).name for one in self.discovery.probed() if Path(one.path).parent == folder)

    def probed_below(self, folder: Path) -> list[str]:
        """The same of a folder and all folders in it."""
        return sorted(Path(one.path).name for one in self.discovery.probed() if folder in Path(one.path).parents)

    def drops(self) -> dict[str, int]:
        """Losses that are not zero."""
        return {f"{p.name} {r.name}".lower(): count for (p, r), count in self.tables.drops().items() if count}


@contextmanager
def discovering(
    kind: AttachKind | None = None,
    apis: frozenset[Api] = frozenset(Api),
    *,
    owner_of: Callable[[int], str] = lambda _: "",
    **options: Any,
) -> Iterator[Scene]:
    """A Scene, with nothing attached yet. apis: which ones it probes. owner_of: of a process. options: of loader.load()."""
    with tracer(kind, **options) as traced:
        discovery = Discovery(traced.kernel, Processes(), apis, with_launches=True, owner_of=owner_of)
        reader = TenantReader(Processes(), PATIENCE_SECONDS)
        try:
            yield Scene(traced.kernel, traced.tables, discovery, reader)
        finally:
            discovery.close()
            reader.close()


def copied(folder: Path) -> Path:
    """A folder with copies of the stand-in's libraries: other inodes than any file that is in use."""
    folder.mkdir(parents=True)
    for name in LIBRARIES:
        shutil.copy(standin.build_dir() / name, folder)
    return folder


def recorded(count: int) -> dict[str, int]:
    """What is counted of events recorded: the runtime does it through the driver."""
    return {"cudaEventRecord": count, "cuEventRecord": count}
