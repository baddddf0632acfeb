"""What did the GPUs of a process do in the last minute, and who else used them? Looked at once a second.

In: what a collector knows of GPUs, kernels that processes have launched. Out: DeviceSide of a process, what its link carries.
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

KEPT = 90
"""Looks: a minute before an episode, and the episode until it is told."""
_LOOK_NS = NANOSECONDS


_Part = tuple[str, str]
"""GPU and MIG instance."""


class _Look(NamedTuple):
    """throttled_ns: by reason. kernels: by process number."""

    now_ns: int
    throttled_ns: Mapping[_Part, Mapping[str, int]]
    tgids: Mapping[_Part, frozenset[int]]
    kernels: Mapping[int, int]


class GpuActivity:
    """states: as they were sampled last; never waits."""

    def __init__(self, states: Callable[[], Sequence[GpuState]]) -> None:
        self._read = states
        self._states: Sequence[GpuState] = ()  # of the last look
        self._looks: deque[_Look] = deque(maxlen=KEPT)
        self._processes: Mapping[int, ProcessRow] = {}

    def tick(self, processes: Mapping[int, ProcessRow], kernels: Callable[[], Mapping[int, int]], now_ns: int) -> None:
        """Look, when it is time. processes: those alive. kernels: that each has launched so far."""
        self._processes = processes
        if self._looks and now_ns - self._looks[-1].now_ns < _LOOK_NS:
            return
        states = self._states = self._read()
        if not states and not self._looks:
            return
        throttled_ns = {(one.gpu, one.mig): one.throttled_ns for one in states}
        tgids = {(one.gpu, one.mig): frozenset(one.process_bytes) for one in states}
        self._looks.append(_Look(now_ns, throttled_ns, tgids, kernels()))

    def link_bytes_per_second(self, process: int) -> float:
        """Of the GPU that it uses; 0 where that is not known. Of several the slowest."""
        return min((one.link_bytes_per_second for one in self._states_of(process)), default=0.0)

    def gpu_bytes(self, process: int) -> int:
        """Memory of the GPUs that it uses; 0 where they are not known."""
        return sum(one.memory_total_bytes for one in self._states_of(process))

    def side(self, process: int, then_ns: int, now_ns: int) -> DeviceSide:
        """Between two moments of the last minute, and before."""
        own = {(one.gpu, one.mig) for one in self._states_of(process)}
        during = _Between(self._since(then_ns), self._at(now_ns))
        if not own or not during.is_known:
            return DeviceSide()
        before = _Between(self._looks[0], self._at(then_ns))
        worst = max(
            (_throttled(gpu, before, during) for gpu in own), key=lambda one: one.throttled - one.throttled_before
        )
        return worst._replace(neighbours=tuple(self._neighbours(process, own, before, during)))

    def _states_of(self, process: int) -> list[GpuState]:
        row = self._processes.get(process)
        return [one for one in self._states if row and row.tgid in one.process_bytes]

    def _since(self, moment_ns: int) -> _Look | None:
        """The first look after it: what was before is not diluted."""
        return next((one for one in self._looks if one.now_ns >= moment_ns), None)

    def _at(self, moment_ns: int) -> _Look | None:
        """The last look before it."""
        return next((one for one in reversed(self._looks) if one.now_ns <= moment_ns), None)

    def _neighbours(
        self, process: int, own: Iterable[_Part], before: _Between, during: _Between
    ) -> Iterator[Neighbour]:
        here, there = _tgids(during.now, own), _tgids(before.now, own)
        known = {row.tgid: number for number, row in self._processes.items() if row.tgid}
        for tgid in here - {self._processes[process].tgid}:
            number = known.get(tgid)
            if number is not None:
                name = program_name(self._processes[number].comm)
                yield Neighbour(name, during.kernels_per_second(number), before.kernels_per_second(number))
            elif tgid not in there:  # its kernels are not seen
                yield Neighbour(OUTSIDE, NEIGHBOUR_KERNELS, 0.0)


class _Between(NamedTuple):
    """Two looks; of what no time has passed in, nothing is known."""

    then: _Look | None
    now: _Look | None

    @property
    def passed_ns(self) -> int:
        """0 where nothing is known."""
        return max(self.now.now_ns - self.then.now_ns, 0) if self.then and self.now else 0

    @property
    def is_known(self) -> bool:
        """Whether time has passed."""
        return self.passed_ns > 0

    def throttled(self, gpu: _Part) -> dict[str, float]:
        """By reason, the part of the time."""
        if not (self.then and self.now and self.passed_ns):
            return {}
        then, now = self.then.throttled_ns.get(gpu, {}), self.now.throttled_ns.get(gpu, {})
        return {reason: min((ns - then.get(reason, 0)) / self.passed_ns, 1.0) for reason, ns in now.items()}

    def kernels_per_second(self, process: int) -> float:
        """That it launched."""
        if not (self.then and self.now and self.passed_ns):
            return 0.0
        grown = self.now.kernels.get(process, 0) - self.then.kernels.get(process, 0)
        return grown * NANOSECONDS / self.passed_ns


def _tgids(look: _Look | None, gpus: Iterable[_Part]) -> frozenset[int]:
    return frozenset().union(*(look.tgids.get(gpu, frozenset()) for gpu in gpus)) if look else frozenset()


def _throttled(gpu: _Part, before: _Between, during: _Between) -> DeviceSide:
    shares, earlier = during.throttled(gpu), before.throttled(gpu)
    reason = max(shares, key=lambda one: shares[one] - earlier.get(one, 0.0), default="")
    return DeviceSide(shares.get(reason, 0.0), earlier.get(reason, 0.0), reason)
