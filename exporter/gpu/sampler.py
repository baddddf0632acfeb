"""Samples every GPU once a second, in threads of its own, so that nothing else waits for the driver.

In: the driver, exporter/gpu/nvml.py. Out: a GpuReading and GpuStates, both read without blocking.

One thread keeps the time and has driver calls made by another one (call_timeout.py), so at most one thread for each GPU hangs. A
round over eight GPUs of the stand-in takes 2 ms of a CPU; without a driver one attempt to load its library in 30 s takes 0.1 ms.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence

from exporter.errors import ExporterError, NotPossibleHere
from exporter.gpu.call_timeout import CallThreads, CallTimedOut, DriverCall, Stopping, Wait
from exporter.gpu.driver_calls import DriverFailure
from exporter.gpu.failure_log import DRIVER, FailureLog
from exporter.gpu.model import FailureKind, GpuReading, GpuState, states_of
from exporter.gpu.nvml import Nvml
from exporter.gpu.sampled_gpu import DEFAULT_TIMING, SampledGpu, SamplerTiming
from exporter.units import NANOSECONDS, seconds

log = logging.getLogger(__name__)


class GpuSampler:
    """The thread that made it calls start() and stop(), any thread reading() and states().

    clock_ns: CLOCK_MONOTONIC. wait: for an event, so many seconds at most.
    """

    def __init__(
        self,
        driver: Nvml,
        timing: SamplerTiming = DEFAULT_TIMING,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wait: Wait = threading.Event.wait,
    ) -> None:
        self._driver = driver
        self._timing = timing
        self._clock_ns = clock_ns
        self._calls = CallThreads(clock_ns, wait)
        self._failures = FailureLog()
        self._thread: threading.Thread | None = None
        self._is_open = False
        self._hung: DriverCall | None = None  # while the driver is opened
        self._failed = 0  # times in a row that the driver could not be opened
        self._next_open_ns = 0
        self._gpus: list[SampledGpu] = []
        self._defect: Exception | None = None
        self._reading = GpuReading()
        self._states: tuple[GpuState, ...] = ()
        self.absent_reason = ""
        """Why there is no driver; empty with one, and before the first round."""

    @property
    def last_failure(self) -> str:
        """The text of the last failure."""
        return self._failures.last

    def states(self) -> Sequence[GpuState]:
        """Every GPU and MIG instance as last sampled; empty without a driver. Never blocks."""
        return self._states

    def reading(self) -> GpuReading:
        """Everything known of every GPU. Never blocks. Raises ExporterError when a defect has ended the last round."""
        if self._defect is not None:
            raise ExporterError("GPUs could not be sampled") from self._defect
        return self._reading

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="devices", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Does not wait for a call that hangs: its thread ends with the process."""
        self._calls.stop()
        if self._thread is not None:
            self._thread.join(self._timing.sample_seconds)

    def _run(self) -> None:
        while not self._calls.stopping.is_set():
            began_ns = self._clock_ns()
            try:
                self.round()
            except Stopping:
                return
            except Exception as error:  # a defect here must cost the metrics of GPUs only
                if self._defect is None:
                    log.exception("cannot sample GPUs, retrying: internal error (bug)")
                self._defect = error
            else:
                self._defect = None
            self._calls.stopping.wait(max(self._timing.sample_seconds - seconds(self._clock_ns() - began_ns), 0.0))

    def round(self) -> None:
        """Sample every GPU that is due. start() repeats this."""
        if self._is_open or self._open():
            for gpu in list(self._gpus):
                if gpu.is_due:
                    self._sample(gpu)
                if not self._is_open:
                    break
        self._reading = GpuReading(tuple(gpu.record() for gpu in self._gpus), dict(self._failures.counts))
        self._states = tuple(itertools.chain.from_iterable(map(states_of, self._reading.records)))

    def _open(self) -> bool:
        """Open the driver if that is due; whether it is open now."""
        if self._hung is not None and not self._hung.has_returned:
            return False
        if self._clock_ns() < self._next_open_ns:
            return False
        self._hung = None
        try:
            self._calls.run(self._driver.open, self._timing.open_seconds)
            count = self._calls.run(self._driver.count, self._timing.open_seconds)
        except NotPossibleHere as error:
            self._note_absence(error)
            return False
        except CallTimedOut as error:
            self._hung = error.hung
            self._failures.add(DRIVER, FailureKind.TIMEOUT, str(error))
        except DriverFailure as error:
            self._failures.add(DRIVER, error.kind, str(error))
        else:
            self._opened(count)
            return True
        self._failed += 1
        self._next_open_ns = self._clock_ns() + self._timing.retry_ns(self._failed)
        return False

    def _note_absence(self, error: NotPossibleHere) -> None:
        """A driver whose GPUs were sampled before has been unloaded, which is a failure."""
        if self._gpus:
            self._failures.add(DRIVER, FailureKind.RELOADED, str(error))
        elif not self.absent_reason:
            log.debug("no GPU metrics: %s", error.one_line())
        self.absent_reason = error.one_line()
        self._failed += 1
        absent_ns = int(self._timing.absent_seconds * NANOSECONDS)
        self._next_open_ns = self._clock_ns() + (self._timing.retry_ns(self._failed) if self._gpus else absent_ns)

    def _opened(self, count: int) -> None:
        self._is_open = True
        self._failed = 0
        self.absent_reason = ""
        self._failures.recovered(DRIVER, "the NVIDIA driver answers again")
        for gpu in self._gpus:
            gpu.reopen(is_gone=gpu.index >= count)
        known = {gpu.index for gpu in self._gpus}
        self._gpus += [
            SampledGpu(index, self._driver, self._calls, self._timing, self._failures)
            for index in range(count)
            if index not in known
        ]
        self._gpus.sort(key=lambda gpu: gpu.index)

    def _sample(self, gpu: SampledGpu) -> None:
        try:
            gpu.open()
            self._forget_moved(gpu)
            gpu.sample()
        except CallTimedOut as error:
            gpu.time_out(error)
        except DriverFailure as error:
            gpu.fail(error)
            if error.kind is FailureKind.RELOADED:
                self._close()
            else:
                gpu.close()

    def _forget_moved(self, opened: SampledGpu) -> None:
        """A GPU that has got another number counts from 0 under that number."""
        for gpu in self._gpus:
            if gpu is not opened and gpu.uuid == opened.uuid:
                gpu.forget()
        self._gpus = [gpu for gpu in self._gpus if gpu.uuid or not gpu.is_gone]

    def _close(self) -> None:
        """The driver has been reloaded or is about to be unloaded: its handles are not valid any more."""
        self._is_open = False
        for gpu in self._gpus:
            gpu.miss()
        self._failed = 1
        self._next_open_ns = self._clock_ns() + self._timing.retry_ns(self._failed)
        try:
            self._calls.run(self._driver.close, self._timing.call_seconds)
        except ExporterError as error:
            log.debug("closing the NVIDIA driver failed: %s", error)
