"""Runs a program under real probes: load, attach to the stand-in's libraries, run, read the tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import gpustall_standin as standin
from exporter.config.probes import AttachKind
from exporter.host.elf import read_elf
from exporter.kernel import loader, probes
from exporter.kernel.abi import Api
from exporter.kernel.events import KernelEvent, event_of
from exporter.kernel.loader import Kernel
from exporter.kernel.operation_rows import ErrorKey
from exporter.kernel.operations import NUMBERS, OPERATIONS, wanted_symbols
from exporter.kernel.readings import Reading
from exporter.kernel.share_rows import Shares
from exporter.kernel.tables import Tables
from exporter.totals import Call
from tests.support import lent_kernels
from tests.support.patience import PATIENCE_SECONDS

STANDIN_LIBRARIES = {Api.RUNTIME: "libcudart.so.12", Api.DRIVER: "libcuda.so.1", Api.NCCL: "libnccl.so.2"}


class OperationSum(NamedTuple):
    """The rows of an operation added up; the exemplar is the latest of theirs."""

    untimed: int
    total_ns: int
    bytes: int
    timed: int
    slots: tuple[int, ...]
    states_ns: tuple[int, ...]
    slowest: Call | None

    @property
    def calls(self) -> int:
        """All calls that returned."""
        return self.untimed + self.timed


def _added(columns: Iterable[Sequence[int]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*columns, strict=True)))


@dataclass
class Run:
    """What one program did: what it counted (`truths`, a JSON object per process) and what we counted (`reading`)."""

    truths: list[dict[str, Any]]
    reading: Reading
    drops: dict[str, int]

    def row(self, operation: str) -> OperationSum:
        """The row of an operation, over all processes and communicators."""
        rows = [row for key, row in self.reading.operations.items() if OPERATIONS[key.operation].name == operation]
        exemplars = (row.slowest for row in rows if row.slowest)
        return OperationSum(
            *_added((row.untimed, row.total_ns, row.bytes, row.timed) for row in rows),
            slots=_added(row.slots for row in rows),
            states_ns=_added(row.states_ns for row in rows),
            slowest=max(exemplars, key=lambda call: call.ended_ns, default=None),
        )

    def counts(self) -> dict[str, int]:
        """Operation -> calls, over all processes."""
        found: dict[str, int] = {}
        for key, row in self.reading.operations.items():
            name = OPERATIONS[key.operation].name
            found[name] = found.get(name, 0) + row.calls
        return found

    def errors(self) -> dict[tuple[str, int], int]:
        """(operation, code) -> errors, over all processes."""
        found: dict[tuple[str, int], int] = {}
        for key, count in self.reading.errors.items():
            named = (OPERATIONS[key.operation].name, key.code)
            found[named] = found.get(named, 0) + count
        return found

    def prepared(self, symbol: str, rank: int = 0) -> int:
        """Calls that the program made before those of its command line."""
        made: int = self.truths[rank]["setup"].get(symbol, 0)
        return made

    def truth(self, api: str, symbol: str, rank: int = 0) -> dict[str, int]:
        """The program's own count: {"count", "errors", "sum_ns"}."""
        counted: dict[str, int] = self.truths[rank]["calls"][api][symbol]
        return counted


@dataclass
class Tracer:
    """Loaded programs, attached to libraries."""

    kernel: Kernel
    tables: Tables
    _attachments: list[probes.Attachment] = field(default_factory=list)

    @property
    def attachments(self) -> Sequence[probes.Attachment]:
        """What attach() has attached."""
        return self._attachments

    def attach(self, api: Api, library: Path, only: Collection[str] | None = None) -> probes.Attachment:
        """Probe one library file. only: symbols to probe, instead of all that are wanted."""
        fd = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
        try:
            offsets = read_elf(fd).symbol_offsets(wanted_symbols(api) if only is None else only)
        finally:
            os.close(fd)
        return self.attach_at(api, library, offsets)

    def attach_at(self, api: Api, library: Path, offsets: Mapping[str, int]) -> probes.Attachment:
        """Probe places of a file as if these functions were there."""
        fd = os.open(library, os.O_RDONLY | os.O_CLOEXEC)
        try:
            attachment = probes.attach(self.kernel, api, fd, offsets)
        finally:
            os.close(fd)
        self._attachments.append(attachment)
        return attachment

    def attach_standin(self, only: Collection[str] | None = None) -> None:
        """Probe the three libraries of the stand-in."""
        for api, name in STANDIN_LIBRARIES.items():
            self.attach(api, standin.build_dir() / name, only)

    def drops(self) -> dict[str, int]:
        """`program reason` -> count, of those that are not zero, recursion misses included."""
        found = {f"{p.name} {r.name}".lower(): count for (p, r), count in self.tables.drops().items()}
        found |= {f"{name} recursion": misses for name, misses in self.kernel.recursion_misses().items()}
        return {name: count for name, count in found.items() if count}

    def run(self, *command: str, program: str = "calls", environment: Mapping[str, str] | None = None) -> Run:
        """Run a stand-in program to its end and read the tables."""
        path = standin.program(program)
        assert path is not None, program
        finished = subprocess.run(
            [path, *command],
            env=standin.environment({**os.environ, **(environment or {})}),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        truths = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
        finals = sorted((t for t in truths if t.get("type") == "final"), key=lambda truth: truth["rank"])
        return Run(finals, self.tables.read(), self.drops())

    @contextmanager
    def asleep(self, *orders: str, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """`calls` executing orders, of which the last should sleep; killed with its ranks at the end."""
        process = subprocess.Popen(
            [standin.build_dir() / "calls", *orders],
            env=standin.environment({**os.environ, **(environment or {})}),
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def detach(self) -> None:
        """Remove what attach() has attached."""
        probes.detach_all(self._attachments)


@contextmanager
def tracer(kind: AttachKind | None = None, **options: Any) -> Iterator[Tracer]:
    """A Tracer with nothing attached yet. options: of loader.load(); those that change what is loaded have it loaded again."""
    is_lent = options.keys() <= {"idle_ns", "with_launches"}
    kernel = lent_kernels.take(kind, **options) if is_lent else loader.load(wanted=kind, **options)
    found = Tracer(kernel, Tables(kernel.maps, kernel.iterate, Shares(kernel.maps, kernel.request_share)))
    try:
        yield found
    finally:
        found.detach()
        if is_lent:
            lent_kernels.give_back(kind, kernel)
        else:
            kernel.close()


def new_events(kernel: Kernel) -> list[KernelEvent]:
    """Events since the last call."""
    records: list[bytes] = []
    ring = kernel.open_events(records)
    try:
        ring.consume()
    finally:
        ring.close()
    return list(map(event_of, records))


def error_key(process: int, operation: str, code: int) -> ErrorKey:
    """Key of an error by operation name."""
    return ErrorKey(process, NUMBERS[operation], code)


def eventually(condition: Any, what: str, patience_seconds: float = PATIENCE_SECONDS) -> Any:
    """The first true value of condition(), which is polled; fails the test after patience_seconds."""
    until = time.monotonic() + patience_seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"never happened within {patience_seconds} s: {what}")


def only(items: Iterable[Any]) -> Any:
    """The one item."""
    (item,) = items
    return item
