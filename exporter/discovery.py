"""Which library files are probed? Attaches to every CUDA and NCCL library that some process maps, and detaches when none does.

In: a loaded Kernel, /proc, and the kernel's news of fresh mappings. Out: attachments, and what was skipped, counted.
A walk through /proc goes a little further at every tick, so that a node with thousands of processes never stalls the loop;
fresh mappings are looked at right away. A file that no process mapped during two whole walks is detached.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from exporter.errors import KernelRefused, NotPossibleHere, ProcessGone
from exporter.host import libraries
from exporter.host.libraries import FileId, LibraryKind, MappedLibrary, OpenedLibrary, SkippedLibrary
from exporter.host.processes import Processes
from exporter.kernel import probes
from exporter.kernel.abi import Api
from exporter.kernel.loader import Kernel
from exporter.kernel.operations import wanted_symbols
from exporter.kernel.probes import Attachment

log = logging.getLogger(__name__)

API_OF = {LibraryKind.RUNTIME: Api.RUNTIME, LibraryKind.DRIVER: Api.DRIVER, LibraryKind.NCCL: Api.NCCL}
API_LABEL = {Api.RUNTIME: "runtime", Api.DRIVER: "driver", Api.NCCL: "nccl"}
STEP_SECONDS = 0.005
WALKS_UNUSED = 2

_Key = tuple[int, int, bytes]  # device, inode and path of a mapping: enough to know it again without opening it


@dataclass(slots=True)
class Probed:
    """One library file. attachment None: examined and left alone (malformed, or it has nothing to probe)."""

    path: str
    api: Api
    attachment: Attachment | None
    keys: set[_Key] = field(default_factory=set)
    last_used_walk: int = 0


class Discovery:
    """The library files known, and the walk that finds more. apis: which ones to probe."""

    def __init__(self, kernel: Kernel, processes: Processes, apis: frozenset[Api], interval_seconds: float) -> None:
        self._kernel = kernel
        self._processes = processes
        self._apis = apis
        self._interval_seconds = interval_seconds
        self._files: dict[FileId, Probed] = {}
        self._by_key: dict[_Key, Probed] = {}
        self._walk_number = 0
        self._walk: Iterator[int] | None = None
        self._next_walk_at = 0.0
        self._unreadable = 0
        self.unreadable_processes = 0  # in the last whole walk
        self.failures: Counter[tuple[str, ...]] = Counter()

    def probed(self) -> list[Probed]:
        """Files that are probed now."""
        return [file for file in self._files.values() if file.attachment]

    def walk_all(self) -> None:
        """One whole walk, at once; what start-up does."""
        self._begin_walk()
        while self._walk is not None:
            self.step(float("inf"))

    def hurry(self) -> None:
        """News were lost: begin the next walk at the next step."""
        self._next_walk_at = 0.0

    def step(self, seconds: float = STEP_SECONDS) -> None:
        """Go on with the walk for about `seconds`, or begin one when the interval has passed."""
        now = time.monotonic()
        if self._walk is None:
            if now < self._next_walk_at:
                return
            self._begin_walk()
        assert self._walk is not None  # noqa: S101 - just begun
        for tgid in self._walk:
            self.look_at(tgid)
            if time.monotonic() - now > seconds:
                return
        self._walk = None
        if self._unreadable and self._unreadable != self.unreadable_processes:
            log.info("permission denied for %d of the processes in /proc: what they run is not seen", self._unreadable)
        self.unreadable_processes = self._unreadable
        self._next_walk_at = now + self._interval_seconds
        self._detach_unused()

    def _begin_walk(self) -> None:
        self._walk_number += 1
        self._unreadable = 0
        self._walk = iter(self._processes.tgids())

    def look_at(self, tgid: int) -> None:
        """Attach to the libraries of one process that are not known yet. It may be gone by now."""
        try:
            mapped = libraries.find(self._processes, tgid)
        except ProcessGone:
            return
        except NotPossibleHere as error:
            self._unreadable += 1
            log.debug("not looked at: %s", error.one_line())
            return
        for library in mapped:
            if API_OF[library.kind] in self._apis:
                self._meet(tgid, library)

    def expect(self, path: Path, kind: LibraryKind) -> None:
        """Probe a library that a process is about to map, so that not even its first call is missed."""
        if API_OF[kind] in self._apis:
            self._examine(libraries.inspect_file(path, kind))

    def _meet(self, tgid: int, library: MappedLibrary) -> None:
        mapping = library.mapping
        key = (mapping.device, mapping.inode, mapping.path)
        file = self._by_key.get(key)
        if file is None:
            self._examine(libraries.inspect(self._processes, tgid, library))
        else:
            file.last_used_walk = self._walk_number

    def _examine(self, found: OpenedLibrary | SkippedLibrary) -> None:
        """Probe a file that was opened, unless it is probed under another name; remember one that cannot be."""
        mapping, kind = found.library.mapping, found.library.kind
        key = (mapping.device, mapping.inode, mapping.path)
        if isinstance(found, OpenedLibrary):
            with found:
                self._remember(found.file_id, key, self._files.get(found.file_id) or self._probe(found))
            return
        if found.reason is not libraries.SkipReason.VANISHED:
            # Under a key of its own, so that it is not opened again at every walk.
            self._remember(FileId(*key[:2], hash(key)), key, Probed(mapping.shown_path, API_OF[kind], None))
        self._failed(kind.value, found.reason.value, found.detail)

    def _remember(self, file_id: FileId, key: _Key, file: Probed) -> None:
        file.last_used_walk = self._walk_number
        file.keys.add(key)
        self._files[file_id] = file
        self._by_key[key] = file

    def _probe(self, opened: OpenedLibrary) -> Probed:
        api, path = API_OF[opened.library.kind], opened.library.mapping.shown_path
        offsets = opened.elf.symbol_offsets(wanted_symbols(api))
        if not offsets:
            self._failed(API_LABEL[api], "no_symbols", f"{path}: none of the wanted functions is in it")
            return Probed(path, api, None)
        try:
            attachment = probes.attach(self._kernel, api, opened.fd, offsets)
        except KernelRefused as error:
            self._failed(API_LABEL[api], "refused", f"{path}: {error.one_line()}")
            return Probed(path, api, None)
        log.info("attached to %s: %d functions, %s", path, len(attachment.functions), attachment.kind.value)
        return Probed(path, api, attachment)

    def _failed(self, library: str, reason: str, detail: str) -> None:
        if not self.failures[library, reason]:
            log.warning("not attached (%s): %s", reason, detail)
        self.failures[library, reason] += 1

    def _detach_unused(self) -> None:
        for file_id, file in list(self._files.items()):
            if self._walk_number - file.last_used_walk < WALKS_UNUSED:
                continue
            if file.attachment:
                file.attachment.detach()
                log.info("detached from %s: no process maps it any more", file.path)
            del self._files[file_id]
            for key in file.keys:
                self._by_key.pop(key, None)

    def close(self) -> None:
        """Detach everything."""
        for file in self._files.values():
            if file.attachment:
                file.attachment.detach()
        self._files.clear()
        self._by_key.clear()
