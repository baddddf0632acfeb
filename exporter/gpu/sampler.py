"""Samples every GPU once a second, in threads of its own, so that nobody ever waits for the driver.

In: the driver, as exporter/gpu/nvml.py has it. Out: what is known of each GPU, and DeviceStates, both read without blocking.

One thread keeps the time, and has the calls made by another one (errands.py). A GPU that a call hangs for is not asked before it
returns; the others are. So at most one thread for each GPU hangs. A round over eight GPUs of the stand-in takes 2 ms of a CPU;
without a driver there is one attempt to load its library in 30 s, 0.1 ms.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from exporter.errors import ExporterError, NotPossibleHere
from exporter.gpu.call_timeout import CallThreads, CallTimedOut, DriverCall, Stopping
from exporter.gpu.model import FailureKind, GpuFacts, GpuReading, GpuRecord, GpuState, Sample, states_of
from exporter.gpu.nvml import DriverFailure, Note
from exporter.gpu.throttle_reasons import Throttling
from exporter.units import NANOSECONDS, seconds

log = logging.getLogger(__name__)

T = TypeVar("T")

SAMPLE_SECONDS: Final = 1.0
LONGEST_NS: Final = 5 * NANOSECONDS
"""Between two samples, for the later one to say anything of the time since the earlier: a round in which GPUs hang is long."""
_MAX_DOUBLINGS: Final = 32  # a GPU that is lost for a month has failed more often than a float can double


@dataclass(frozen=True, slots=True)
class SamplerTiming:
    """How long: from one round to the next; for a call, or one that opens the driver or a GPU, which may have to wake up first;
    until a driver that is not there is looked for again; until what failed is tried again, doubling from first to last.
    """

    sample_seconds: float = SAMPLE_SECONDS
    call_seconds: float = 1.0
    open_seconds: float = 10.0
    absent_seconds: float = 30.0
    first_retry_seconds: float = 1.0
    last_retry_seconds: float = 60.0


class GpuHandle(Protocol):
    """exporter.gpu.nvml.Gpu."""

    @property
    def facts(self) -> GpuFacts:
        """What it is."""
        ...

    def sample(self, note: Note) -> Sample:
        """Raises DriverFailure."""
        ...

    def take_failures(self) -> Sequence[DriverFailure]:
        """Of single calls."""
        ...

    def take_xids(self) -> Sequence[int]:
        """That came since the last time."""
        ...

    def close(self, note: Note) -> None:
        """Raises DriverFailure."""
        ...


class Driver(Protocol):
    """exporter.gpu.nvml.Nvml. Each method may block for ever, and raises DriverFailure."""

    def open(self, note: Note) -> None:
        """Raises NotPossibleHere where there is none."""
        ...

    def close(self, note: Note) -> None:
        """Before it is opened again."""
        ...

    def count(self, note: Note) -> int:
        """GPUs."""
        ...

    def gpu(self, index: int, note: Note) -> GpuHandle:
        """One of them."""
        ...


@dataclass(slots=True)
class _Book:
    """What is kept of a GPU, whatever becomes of its handle."""

    facts: GpuFacts
    throttling: Throttling = field(default_factory=lambda: Throttling(LONGEST_NS))
    sample: Sample | None = None
    sampled_ns: int = 0
    xids: Counter[int] = field(default_factory=Counter)

    def record(self) -> GpuRecord:
        """As it stands."""
        return GpuRecord(self.facts, self.sample, self.sampled_ns, self.throttling.booked(), dict(self.xids))


@dataclass(slots=True)
class _Slot:
    """A number that the driver counts GPUs by. hung: an errand that has not returned. is_gone: the driver counts it no more."""

    index: int
    handle: GpuHandle | None = None
    hung: DriverCall | None = None
    book: _Book | None = None
    is_gone: bool = False
    failed: int = 0  # times in a row
    next_ns: int = 0

    def miss(self) -> None:
        """A sample has failed."""
        if self.book is not None:
            self.book.throttling.miss()

    def record(self) -> GpuRecord:
        """Of one that has never answered its number alone."""
        return (self.book or _Book(GpuFacts(str(self.index), ""))).record()


class GpuSampler:
    """start() and stop() by the thread that made it; the readers by any. round(): what start() does again and again.

    clock_ns: CLOCK_MONOTONIC. wait: for news of an errand, so many seconds at most.
    """

    def __init__(
        self,
        driver: Driver,
        pace: SamplerTiming = SamplerTiming(),
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wait: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        self._driver = driver
        self._pace = pace
        self._clock_ns = clock_ns
        self._errands = CallThreads(clock_ns, wait)
        self._thread: threading.Thread | None = None
        self._is_open = False
        self._hung: DriverCall | None = None  # while the driver is opened
        self._failed = 0  # times in a row that it could not be opened
        self._next_open_ns = 0
        self._slots: list[_Slot] = []
        self._failures: Counter[tuple[str, FailureKind]] = Counter()
        self._said: set[tuple[str, ...]] = set()
        self._defect: Exception | None = None
        self._reading = GpuReading()
        self._states: tuple[GpuState, ...] = ()
        self.absent_reason = ""
        """Why there is no driver; empty where there is one, and before the first round."""
        self.last_failure = ""
        """What has gone wrong last."""

    # ---- readers

    def states(self) -> Sequence[GpuState]:
        """Every GPU and MIG instance as last sampled; empty without a driver. Never blocks; from any thread."""
        return self._states

    def reading(self) -> GpuReading:
        """Everything known of every GPU. Never blocks; from any thread. Raises ExporterError when the last round failed."""
        if self._defect is not None:
            raise ExporterError("GPUs could not be sampled") from self._defect
        return self._reading

    # ---- the thread

    def start(self) -> None:
        """From here on there are samples."""
        self._thread = threading.Thread(target=self._run, name="devices", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits for nobody: a call that hangs is left to its thread, which ends with the process."""
        self._errands.stop()
        if self._thread is not None:
            self._thread.join(self._pace.sample_seconds)

    def _run(self) -> None:
        while not self._errands.stopping.is_set():
            began_ns = self._clock_ns()
            try:
                self.round()
            except Stopping:
                return
            except Exception as error:  # a defect here must cost the metrics of GPUs only
                if self._defect is None:
                    log.exception("GPUs cannot be sampled")
                self._defect = error
            else:
                self._defect = None
            self._errands.stopping.wait(max(self._pace.sample_seconds - seconds(self._clock_ns() - began_ns), 0.0))

    def round(self) -> None:
        """Sample every GPU that does not hang."""
        if self._is_open or self._open():
            for slot in list(self._slots):
                self._look_at(slot)
                if not self._is_open:
                    break
        self._publish()

    def _publish(self) -> None:
        self._reading = GpuReading(tuple(slot.record() for slot in self._slots), dict(self._failures))
        self._states = tuple(itertools.chain.from_iterable(map(states_of, self._reading.records)))

    # ---- the driver

    def _open(self) -> bool:
        """Whether it is open now."""
        if self._hung is not None and not self._hung.is_over:
            return False
        if self._clock_ns() < self._next_open_ns:
            return False
        self._hung = None
        try:
            self._ask(self._driver.open, self._pace.open_seconds)
            count = self._ask(self._driver.count, self._pace.open_seconds)
        except NotPossibleHere as error:
            self._absent(error)
            return False
        except CallTimedOut as error:
            self._hung = error.errand
            self._note("", FailureKind.TIMEOUT, str(error))
        except DriverFailure as error:
            self._note("", error.kind, str(error))
        else:
            self._opened(count)
            return True
        self._failed += 1
        self._next_open_ns = self._in(self._retry_seconds(self._failed))
        return False

    def _absent(self, error: NotPossibleHere) -> None:
        """It is one that is there no more where there are GPUs of it."""
        if self._slots:
            self._note("", FailureKind.RELOADED, str(error))
        elif not self.absent_reason:
            log.debug("device: GPUs are not told of: %s", error.one_line())
        self.absent_reason = error.one_line()
        self._failed += 1
        self._next_open_ns = self._in(self._retry_seconds(self._failed) if self._slots else self._pace.absent_seconds)

    def _opened(self, count: int) -> None:
        self._is_open = True
        self._failed = 0
        self.absent_reason = ""
        self._works("", "the NVIDIA driver answers again")
        for slot in self._slots:
            slot.handle, slot.next_ns, slot.is_gone = None, 0, slot.index >= count
        known = {slot.index for slot in self._slots}
        self._slots += [_Slot(index) for index in range(count) if index not in known]
        self._slots.sort(key=lambda slot: slot.index)

    def _close(self) -> None:
        """It has been loaded anew, or is about to go: nothing that it gave us is good any more."""
        self._is_open = False
        for slot in self._slots:
            slot.miss()
        self._failed = 1
        self._next_open_ns = self._in(self._pace.first_retry_seconds)
        try:
            self._ask(self._driver.close, self._pace.call_seconds)
        except ExporterError as error:
            log.debug("device: closing the driver: %s", error)

    # ---- a GPU

    def _look_at(self, slot: _Slot) -> None:
        if slot.is_gone or (slot.hung is not None and not slot.hung.is_over) or self._clock_ns() < slot.next_ns:
            return  # a sample of it has failed, and was missed then
        gpu = str(slot.index)
        slot.hung = None
        try:
            if slot.handle is None:
                self._open_gpu(slot)
            assert slot.handle is not None  # noqa: S101 - it is open
            self._book(slot, self._ask(slot.handle.sample, self._pace.call_seconds))
        except CallTimedOut as error:
            slot.hung = error.errand
            slot.miss()
            self._note(gpu, FailureKind.TIMEOUT, str(error))
            return
        except DriverFailure as error:
            self._take(slot)
            slot.miss()
            self._note(gpu, error.kind, str(error))
            slot.failed += 1
            slot.next_ns = self._in(self._retry_seconds(slot.failed))
            if error.kind is FailureKind.RELOADED:
                self._close()
            else:
                self._close_gpu(slot)
            return
        self._take(slot)
        slot.failed = 0
        self._works(gpu, f"GPU {gpu} is told of again")

    def _open_gpu(self, slot: _Slot) -> None:
        """A number may be that of another GPU than before; and a GPU that has another number begins to count anew under that."""
        slot.handle = self._ask(lambda note: self._driver.gpu(slot.index, note), self._pace.open_seconds)
        facts = slot.handle.facts
        for other in self._slots:
            if other is not slot and other.book is not None and other.book.facts.uuid == facts.uuid:
                other.book = None
        if slot.book is None or slot.book.facts.uuid != facts.uuid:
            slot.book = _Book(facts)
        slot.book.facts = facts
        self._slots = [one for one in self._slots if one.book is not None or not one.is_gone]

    def _close_gpu(self, slot: _Slot) -> None:
        if slot.handle is None:
            return
        handle, slot.handle = slot.handle, None
        try:
            self._ask(handle.close, self._pace.call_seconds)
        except CallTimedOut as error:
            slot.hung = error.errand
        except DriverFailure as error:
            log.debug("device: closing GPU %d: %s", slot.index, error)

    def _book(self, slot: _Slot, sample: Sample) -> None:
        assert slot.book is not None  # noqa: S101 - whoever is sampled is known
        slot.book.sample, slot.book.sampled_ns = sample, self._clock_ns()
        slot.book.throttling.add(sample.reasons, slot.book.sampled_ns)

    def _take(self, slot: _Slot) -> None:
        """What happened beside the sample, be it a good one or not."""
        if slot.handle is None or slot.book is None:
            return
        slot.book.xids.update(slot.handle.take_xids())
        gpu = str(slot.index)
        for failure in slot.handle.take_failures():
            self._failures[gpu, failure.kind] += 1
            what = (failure.call, failure.kind) if failure.kind is FailureKind.NO_FUNCTION else (gpu, failure.call)
            self._say(("part", *what), f"GPU {gpu} does not tell everything: {failure}")

    # ---- asking, and what is said

    def _ask(self, ask: Callable[[Note], T], call_seconds: float) -> T:
        """The answer. Raises what the driver does, Unanswered, and Stopping. call_seconds: for each call."""
        return self._errands.ask(ask, call_seconds)

    def _in(self, how_long_seconds: float) -> int:
        return self._clock_ns() + int(how_long_seconds * NANOSECONDS)

    def _retry_seconds(self, failed: int) -> float:
        doublings = min(failed - 1, _MAX_DOUBLINGS)
        return min(self._pace.first_retry_seconds * 2.0**doublings, self._pace.last_retry_seconds)

    def _note(self, gpu: str, trouble: FailureKind, text: str) -> None:
        self._failures[gpu, trouble] += 1
        self._say((gpu, trouble), f"GPU {gpu} is not told of: {text}" if gpu else f"GPUs are not told of: {text}")

    def _say(self, key: tuple[str, ...], text: str) -> None:
        """Once, until it is over."""
        self.last_failure = text
        if key not in self._said:
            log.warning("device: %s", text)
        self._said.add(key)

    def _works(self, gpu: str, text: str) -> None:
        over = {key for key in self._said if key[0] == gpu}
        if over:
            log.info("device: %s", text)
        self._said -= over
