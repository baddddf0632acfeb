"""What the GPUs of a process did in the last minute, and which other processes used them; sampled once a second.

In: GpuStates of the sampler, kernels that processes have launched. Out: DeviceSide of a process, what its link carries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.accounting.culprits import OUTSIDE, program_name
from exporter.chains.gpu import DeviceSide, Neighbour
from exporter.chains.thresholds import NEIGHBOUR_KERNELS
from exporter.gpu.model import GpuState
from exporter.kernel.process_rows import ProcessRow
from exporter.units import NANOSECONDS

MAX_SAMPLES = 90
"""Samples: a minute before an episode, and the episode until it is reported."""
_SAMPLE_NS = NANOSECONDS


_GpuPart = tuple[str, str]
"""GPU and MIG instance."""


class _Sample(NamedTuple):
    """throttled_ns: by reason. kernels: by process number."""

    now_ns: int
    throttled_ns: Mapping[_GpuPart, Mapping[str, int]]
    tgids: Mapping[_GpuPart, frozenset[int]]
    kernels: Mapping[int, int]


class GpuActivity:
    """read: GPUs as the sampler has them; never waits for the driver."""

    def __init__(self, read: Callable[[], Sequence[GpuState]]) -> None:
        self._read = read
        self._states: Sequence[GpuState] = ()  # of the last sample
        self._samples: deque[_Sample] = deque(maxlen=MAX_SAMPLES)
        self._processes: Mapping[int, ProcessRow] = {}

    def tick(self, processes: Mapping[int, ProcessRow], kernels: Callable[[], Mapping[int, int]], now_ns: int) -> None:
        """Take a sample once a second. processes: those alive. kernels: launched so far, by process number."""
        self._processes = processes
        if self._samples and now_ns - self._samples[-1].now_ns < _SAMPLE_NS:
            return
        states = self._states = self._read()
        if not states and not self._samples:
            return
        throttled_ns = {(one.gpu, one.mig): one.throttled_ns for one in states}
        tgids = {(one.gpu, one.mig): frozenset(one.process_bytes) for one in states}
        self._samples.append(_Sample(now_ns, throttled_ns, tgids, kernels()))

    def link_bytes_per_second(self, process: int) -> float:
        """What the slowest link to a GPU of the process carries; 0 if unknown."""
        return min((one.link_bytes_per_second for one in self._states_of(process)), default=0.0)

    def gpu_bytes(self, process: int) -> int:
        """Memory of the GPUs that the process uses; 0 if unknown."""
        return sum(one.memory_total_bytes for one in self._states_of(process))

    def side(self, process: int, then_ns: int, now_ns: int) -> DeviceSide:
        """Throttling and neighbours between two moments of the last minute, and before them."""
        own = {(one.gpu, one.mig) for one in self._states_of(process)}
        during = _SamplePair(self._since(then_ns), self._at(now_ns))
        if not own or not during.is_known:
            return DeviceSide()
        before = _SamplePair(self._samples[0], self._at(then_ns))
        worst = max(
            (_throttled(gpu, before, during) for gpu in own), key=lambda one: one.throttled - one.throttled_before
        )
        return worst._replace(neighbours=tuple(self._neighbours(process, own, before, during)))

    def _states_of(self, process: int) -> list[GpuState]:
        row = self._processes.get(process)
        return [one for one in self._states if row and row.tgid in one.process_bytes]

    def _since(self, moment_ns: int) -> _Sample | None:
        """The first sample after a moment, so that what was before does not dilute it."""
        return next((one for one in self._samples if one.now_ns >= moment_ns), None)

    def _at(self, moment_ns: int) -> _Sample | None:
        """The last sample before a moment."""
        return next((one for one in reversed(self._samples) if one.now_ns <= moment_ns), None)

    def _neighbours(
        self, process: int, own: Iterable[_GpuPart], before: _SamplePair, during: _SamplePair
    ) -> Iterator[Neighbour]:
        tgids, tgids_before = _tgids(during.last, own), _tgids(before.last, own)
        known = {row.tgid: number for number, row in self._processes.items() if row.tgid}
        for tgid in tgids - {self._processes[process].tgid}:
            number = known.get(tgid)
            if number is not None:
                name = program_name(self._processes[number].comm)
                yield Neighbour(name, during.kernels_per_second(number), before.kernels_per_second(number))
            elif tgid not in tgids_before:  # its kernels are not seen
                yield Neighbour(OUTSIDE, NEIGHBOUR_KERNELS, 0.0)


class _SamplePair(NamedTuple):
    """Two samples; nothing is known where no time has passed between them."""

    first: _Sample | None
    last: _Sample | None

    @property
    def passed_ns(self) -> int:
        return max(self.last.now_ns - self.first.now_ns, 0) if self.first and self.last else 0

    @property
    def is_known(self) -> bool:
        return self.passed_ns > 0

    def throttled(self, gpu: _GpuPart) -> dict[str, float]:
        """Reason -> share of the time."""
        if not (self.first and self.last and self.passed_ns):
            return {}
        first, last = self.first.throttled_ns.get(gpu, {}), self.last.throttled_ns.get(gpu, {})
        return {reason: min((ns - first.get(reason, 0)) / self.passed_ns, 1.0) for reason, ns in last.items()}

    def kernels_per_second(self, process: int) -> float:
        if not (self.first and self.last and self.passed_ns):
            return 0.0
        grown = self.last.kernels.get(process, 0) - self.first.kernels.get(process, 0)
        return grown * NANOSECONDS / self.passed_ns


def _tgids(sample: _Sample | None, gpus: Iterable[_GpuPart]) -> frozenset[int]:
    return frozenset().union(*(sample.tgids.get(gpu, frozenset()) for gpu in gpus)) if sample else frozenset()


def _throttled(gpu: _GpuPart, before: _SamplePair, during: _SamplePair) -> DeviceSide:
    shares, earlier = during.throttled(gpu), before.throttled(gpu)
    reason = max(shares, key=lambda one: shares[one] - earlier.get(one, 0.0), default="")
    return DeviceSide(shares.get(reason, 0.0), earlier.get(reason, 0.0), reason)
