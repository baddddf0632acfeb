"""Runs an episode under the kernel's programs and records their tables. Nothing but the episode's own job is traced."""

from __future__ import annotations

import os
import select
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import gpustall_standin as standin
from exporter.gpu.model import GpuState
from exporter.gpu.nvml import Nvml
from exporter.gpu.sampler import GpuSampler
from exporter.kernel import abi
from exporter.kernel.abi import EventKind
from exporter.kernel.events import event_of
from exporter.kernel.loader import Kernel
from exporter.kernel.thread_rows import THREADS_ADOPT, THREADS_READ, feeding_place
from exporter.recording.codec import (
    GPUS,
    MAPS,
    THREADS,
    Rows,
    Tick,
    difference,
    gpu_state_rows,
    thread_rows,
    without_histogram,
)
from tests.faults.episode import Episode
from tests.faults.injectors.gpu import STATE
from tests.faults.recording import RecordedRun, Recording
from tests.faults.truth import make
from tests.support.traced import STANDIN_LIBRARIES, Tracer, tracer

TICK_SECONDS = 0.25


def private_standin(folder: Path) -> Path:
    """The trainer and its libraries as files of their own, which no other process maps."""
    for name in (*STANDIN_LIBRARIES.values(), "trainer"):
        shutil.copy2(standin.build_dir() / name, folder / name)
    return folder


def record(episode: Episode, folder: Path) -> Recording:
    """Make both runs of an episode. folder: of private_standin(). Raises what truth.measure() does."""
    clean, faulty = (_recorded(episode, folder, is_faulty=is_faulty) for is_faulty in (False, True))
    return Recording(episode.name, clean, faulty)


def _recorded(episode: Episode, folder: Path, *, is_faulty: bool) -> RecordedRun:
    with attached(folder) as traced, ticking(traced.kernel) as ticks:
        result = make(episode, is_faulty=is_faulty, folder=folder)
    tgids = {final["rank"]: final["tgid"] for final in result.finals}
    # What Step has beyond its times is not recorded.
    steps = tuple(replace(step, loader_wait_ns=0, delay_ns=0, cpu_ns=0, runnable_ns=0) for step in result.steps)
    return RecordedRun(steps, result.injections_ns, tgids, tuple(ticks))


@contextmanager
def attached(folder: Path) -> Iterator[Tracer]:
    """The kernel's programs, attached to the libraries of private_standin()."""
    with tracer() as traced:
        for api, name in STANDIN_LIBRARIES.items():
            traced.attach(api, folder / name)
        yield traced


@contextmanager
def ticking(kernel: Kernel) -> Iterator[list[Tick]]:
    """Ticks every TICK_SECONDS, and one when the block is left; failures of the reader end the block."""
    reader = _Reader(kernel)
    reader.start()
    try:
        yield reader.ticks
    finally:
        reader.stop()
    if reader.failure is not None:
        raise reader.failure


class _Reader(threading.Thread):
    """Does what the daemon does: adopts the threads of new processes when they come, reads the tables at every tick."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(name="reader", daemon=True)
        self.ticks: list[Tick] = []
        self.failure: Exception | None = None
        self._kernel = kernel
        self._before: dict[str, Rows] = {}
        self._records: list[bytes] = []
        self._stopping = threading.Event()
        self._gpus: GpuSampler | None = None

    def stop(self) -> None:
        """Returns after the last tick."""
        self._stopping.set()
        self.join()

    def run(self) -> None:
        """Until stop()."""
        try:
            ring = self._kernel.open_events(self._records)
            try:
                next_at = time.monotonic()
                while not self._stopping.is_set():
                    select.select([ring.fileno()], [], [], max(next_at - time.monotonic(), 0))
                    ring.consume()
                    self._adopt()
                    if time.monotonic() >= next_at:
                        next_at = time.monotonic() + TICK_SECONDS
                        self._tick()
                self._tick()
            finally:
                ring.close()
                if self._gpus:
                    self._gpus.stop()
        except Exception as error:  # set by ticking()
            self.failure = error

    def _adopt(self) -> None:
        events = [event_of(record) for record in self._records]
        self._records.clear()
        if any(event.kind is EventKind.PROCESS_TRACKED for event in events):
            self._kernel.iterate(THREADS_ADOPT)

    def _tick(self) -> None:
        now_ns = time.monotonic_ns()
        rows = {name: self._rows(name) for name in MAPS if name != "feeding"}
        rows["feeding"] = self._feeding(rows["processes"])
        rows[THREADS] = thread_rows(self._kernel.iterate(THREADS_READ))
        rows[GPUS] = gpu_state_rows(self._states())
        self.ticks.append(Tick(now_ns, difference(self._before, rows)))
        self._before = rows

    def _states(self) -> Sequence[GpuState]:
        """Rows of GPUs, where the scene has any."""
        if self._gpus is None and STATE in os.environ:
            self._gpus = GpuSampler(Nvml())
            self._gpus.start()
        return self._gpus.states() if self._gpus else ()

    def _rows(self, name: str) -> Rows:
        return {key: without_histogram(name, value) for key, value in self._kernel.maps[name].items()}

    def _feeding(self, processes: Rows) -> Rows:
        """Only the places of processes: the array has thousands."""
        places = {feeding_place(abi.NUMBER.unpack(number)[0]) for number in processes}
        found = ((place, self._kernel.maps["feeding"].get(place)) for place in sorted(places))
        return {place: value for place, value in found if value is not None}
