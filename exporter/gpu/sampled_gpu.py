"""One GPU number of the driver: the handle behind it, what is known of the GPU, and when to sample it again.

In: the driver, through CallThreads. Out: a GpuRecord. A failed GPU is opened and sampled again after a delay that doubles; one in
which a call hangs is skipped until that call returns.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tenacity import RetryCallState, Retrying, wait_exponential

from exporter.gpu.call_timeout import CallThreads, CallTimedOut, DriverCall
from exporter.gpu.driver_calls import DriverFailure
from exporter.gpu.failure_log import FailureLog
from exporter.gpu.model import FailureKind, GpuFacts, GpuRecord, Sample
from exporter.gpu.nvml import Nvml, NvmlGpu
from exporter.gpu.throttle_reasons import Throttling
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

SAMPLE_SECONDS: Final = 1.0
MAX_GAP_NS: Final = 5 * NANOSECONDS
"""Longest time that a sample covers: a round in which GPUs hang takes long."""


@dataclass(frozen=True, slots=True)
class SamplerTiming:
    """sample: from one round to the next. call: timeout. open: timeout of calls that open the driver or a GPU, which may have to
    wake up. absent: until a missing driver is looked for again. retry: delay after a failure, doubling from first to last.
    """

    sample_seconds: float = SAMPLE_SECONDS
    call_seconds: float = 1.0
    open_seconds: float = 10.0
    absent_seconds: float = 30.0
    first_retry_seconds: float = 1.0
    last_retry_seconds: float = 60.0

    def retry_ns(self, failures: int) -> int:
        """Delay after this many failures in a row.

        Of tenacity only the wait strategy is used: the sampler goes on with other GPUs instead of sleeping.
        """
        state = RetryCallState(Retrying(), None, (), {})
        state.attempt_number = failures
        back_off = wait_exponential(multiplier=self.first_retry_seconds, max=self.last_retry_seconds)
        return int(back_off(state) * NANOSECONDS)


DEFAULT_TIMING: Final = SamplerTiming()


@dataclass(slots=True)
class _History:
    """What is known of a GPU, whatever happens to its handle."""

    facts: GpuFacts
    throttling: Throttling = field(default_factory=lambda: Throttling(MAX_GAP_NS))
    sample: Sample | None = None
    sampled_ns: int = 0
    xids: Counter[int] = field(default_factory=Counter)


class SampledGpu:
    """index: the driver's number of the GPU."""

    def __init__(
        self,
        index: int,
        driver: Nvml,
        calls: CallThreads,
        timing: SamplerTiming,
        failures: FailureLog,
    ) -> None:
        self.index = index
        self.is_gone = False
        """Whether the driver does not list this number any more."""
        self._driver = driver
        self._calls = calls
        self._timing = timing
        self._failures = failures
        self._gpu = str(index)
        self._handle: NvmlGpu | None = None
        self._hung: DriverCall | None = None
        self._history: _History | None = None
        self._failed = 0  # times in a row
        self._next_ns = 0

    @property
    def uuid(self) -> str:
        """Empty before the GPU has been opened."""
        return self._history.facts.uuid if self._history else ""

    @property
    def is_due(self) -> bool:
        """Whether to sample it now. A GPU that is not due has failed, and so its next sample covers no time."""
        is_hung = self._hung is not None and not self._hung.has_returned
        return not (self.is_gone or is_hung) and self._calls.clock_ns() >= self._next_ns

    def record(self) -> GpuRecord:
        """Only the number of a GPU that was never opened is known."""
        known = self._history or _History(GpuFacts(self._gpu, ""))
        return GpuRecord(known.facts, known.sample, known.sampled_ns, known.throttling.total_ns(), dict(known.xids))

    def forget(self) -> None:
        """Another number has this GPU now."""
        self._history = None

    def miss(self) -> None:
        """There is no sample in this round."""
        if self._history is not None:
            self._history.throttling.miss()

    def reopen(self, *, is_gone: bool) -> None:
        """The driver has been opened: open the GPU in the next round."""
        self._handle, self._next_ns, self.is_gone = None, 0, is_gone

    def open(self) -> None:
        """Open the GPU unless it is open. A number may have another GPU than before. Raises CallTimedOut, DriverFailure."""
        self._hung = None
        if self._handle is not None:
            return
        self._handle = self._calls.run(lambda before: self._driver.gpu(self.index, before), self._timing.open_seconds)
        facts = self._handle.facts
        if self._history is None or self._history.facts.uuid != facts.uuid:
            self._history = _History(facts)
        self._history.facts = facts

    def sample(self) -> None:
        """Sample the open GPU. Raises CallTimedOut, DriverFailure."""
        assert self._handle is not None  # noqa: S101 - open() comes first
        assert self._history is not None  # noqa: S101
        sample = self._calls.run(self._handle.sample, self._timing.call_seconds)
        self._history.sample, self._history.sampled_ns = sample, self._calls.clock_ns()
        self._history.throttling.add(sample.reasons, self._history.sampled_ns)
        self._collect()
        self._failed = 0
        self._failures.recovered(self._gpu, f"GPU {self._gpu}: sampled again")

    def time_out(self, error: CallTimedOut) -> None:
        """Skip the GPU until the call returns."""
        self._hung = error.hung
        self.miss()
        self._failures.add(self._gpu, FailureKind.TIMEOUT, str(error))

    def fail(self, error: DriverFailure) -> None:
        """Try again later."""
        self._collect()
        self.miss()
        self._failures.add(self._gpu, error.kind, str(error))
        self._failed += 1
        self._next_ns = self._calls.clock_ns() + self._timing.retry_ns(self._failed)

    def close(self) -> None:
        """Release the handle. A close that hangs is skipped like a sample."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        try:
            self._calls.run(handle.close, self._timing.call_seconds)
        except CallTimedOut as error:
            self._hung = error.hung
        except DriverFailure as error:
            log.debug("GPU %s: closing failed: %s", self._gpu, error)

    def _collect(self) -> None:
        """Take XIDs and failures of single calls, whether or not the sample is good."""
        if self._handle is None or self._history is None:
            return
        self._history.xids.update(self._handle.take_xids())
        for failure in self._handle.take_failures():
            self._failures.add_call(self._gpu, failure)
