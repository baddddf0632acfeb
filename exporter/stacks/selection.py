"""Which threads to sample, and when: at most SAMPLES_MAX times in a chain, at most THREADS_MAX threads at a time.

In: open chains, their transitions, the rows of their threads. Out: SampleRequests. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, Transition
from exporter.kernel.abi import OPERATION_NONE, Victim
from exporter.kernel.thread_rows import ThreadRow
from exporter.units import NANOSECONDS

STUCK_NS = NANOSECONDS
"""A call that is open for longer is stuck: no call of a normal step takes a second."""

THREADS_MAX = 4
"""The thread that feeds the GPU, autograd's, and two more: a person reads the result."""

FEEDERS_MAX = 2
"""Threads whose lines are sampled: the training loop, and autograd's."""

SAMPLES_MAX = 2
"""When the chain opens, and once more when it escalates or a call is stuck by then."""

CHECK_NS = NANOSECONDS
CHECK_LATER = 10
"""Threads are checked for stuck calls every second; later every tenth of the time that the chain has been open."""

FEEDER_CAUSES = frozenset(
    {
        Cause.NCCL_HANG,
        Cause.STALLED,
        Cause.SLOW_RANK,
        Cause.LOCK,
        Cause.BLOCKED_OUTPUT,
        Cause.PAUSED,
        Cause.OWN_CODE,
        Cause.OWN_WAIT,
        Cause.GPU,
    }
)
"""Causes that the stack of the thread that feeds the GPU helps to explain, even if it is not in a call."""


class SampleRequest(NamedTuple):
    """Threads of one chain to sample now, the most important first. tids: in the exporter's pid namespace."""

    chain: Chain
    tgid: int
    tids: tuple[int, ...]


class DueChain(NamedTuple):
    """A chain whose threads are to be read. has_changed: it was just opened or has escalated."""

    chain: Chain
    has_changed: bool


@dataclass
class _Samples:
    """Samples of one chain. calls: (tid, begin) of calls that were sampled: their callers are known."""

    count: int = 0
    next_check_ns: int = 0
    calls: set[tuple[int, int]] = field(default_factory=set)


class ThreadSelection:
    """Remembers what was sampled."""

    def __init__(self) -> None:
        self._samples: dict[str, _Samples] = {}

    def due(self, chains: Iterable[Chain], transitions: Iterable[Transition], now_ns: int) -> list[DueChain]:
        """chains: all open ones; others are forgotten."""
        changed = {chain.id for change, chain in transitions if change in (Change.OPENED, Change.ESCALATED)}
        known, self._samples = self._samples, {}
        due = []
        for chain in chains:
            samples = self._samples[chain.id] = known.get(chain.id) or _Samples()
            if samples.count < SAMPLES_MAX and (chain.id in changed or now_ns >= samples.next_check_ns):
                samples.next_check_ns = now_ns + max(CHECK_NS, (now_ns - chain.opened_ns) // CHECK_LATER)
                due.append(DueChain(chain, chain.id in changed))
        return due

    def select(self, due: Iterable[DueChain], threads: Iterable[ThreadRow]) -> list[SampleRequest]:
        """threads: those of the processes of the due chains."""
        rows_of: dict[int, list[ThreadRow]] = {}
        for row in threads:
            rows_of.setdefault(row.process, []).append(row)
        requests = []
        for chain, has_changed in due:
            samples = self._samples[chain.id]
            with_feeders = has_changed and chain.cause in FEEDER_CAUSES
            rows = _selected(rows_of.get(chain.process, ()), samples.calls, with_feeders=with_feeders)
            if rows:
                samples.count += 1
                samples.calls |= {(row.tid, row.opened_ns) for row in rows if row.operation != OPERATION_NONE}
                requests.append(SampleRequest(chain, rows[0].tgid, tuple(row.tid for row in rows)))
        return requests


def feeders(process: int, threads: Iterable[ThreadRow]) -> tuple[int, ...]:
    """Threads that feed the GPU, the latest to have made or left a call first."""
    rows = [row for row in threads if row.process == process and row.tid and row.victim is Victim.STEP]
    return tuple(row.tid for row in sorted(rows, key=lambda row: -row.opened_ns)[:FEEDERS_MAX])


def _selected(rows: Iterable[ThreadRow], sampled: set[tuple[int, int]], *, with_feeders: bool) -> Sequence[ThreadRow]:
    """Threads that feed the GPU first, then by how long they have been in their call."""
    selected = [
        row
        for row in rows
        if row.tid
        and (_is_stuck(row) or (with_feeders and row.victim is Victim.STEP))
        and (row.operation == OPERATION_NONE or (row.tid, row.opened_ns) not in sampled)
    ]
    return sorted(selected, key=lambda row: (row.victim is not Victim.STEP, row.opened_ns))[:THREADS_MAX]


def _is_stuck(row: ThreadRow) -> bool:
    return row.operation != OPERATION_NONE and row.read_ns - row.opened_ns >= STUCK_NS
