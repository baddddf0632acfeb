"""Which threads are worth looking at, and when? At most LOOKS_MAX times in a chain, THREADS_MAX threads at a time.

In: open chains, what has just happened to them, the rows of their threads. Out: Suspects. Nothing is read here.
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
"""A call that is open for longer is stuck: no call of a step that anybody waits for takes a second."""

THREADS_MAX = 4
"""Of a chain at a time: the one that feeds the GPU, autograd's, and two more. What they say is read by a person."""

LOOKS_MAX = 2
"""When the chain opens, and once more when it has become worse or a call is stuck by then."""

CHECK_NS = NANOSECONDS
CHECK_LATER = 10
"""For stuck calls, until there is one: every second, then ever later, by a part of how long the chain has been open."""

OF_THE_FEEDER = frozenset({Cause.NCCL_HANG, Cause.SLOW_RANK, Cause.LOCK, Cause.PAUSED, Cause.NOT_HOST})
"""Causes of which the thread that feeds the GPU can tell more, whether it is in a call or not."""


class Suspects(NamedTuple):
    """Threads of one chain that are to be looked at now. tids: as the exporter sees them, the most telling first."""

    chain: Chain
    tgid: int
    tids: tuple[int, ...]


class Due(NamedTuple):
    """A chain of which the threads are to be read. is_news: it has just been opened, or become worse."""

    chain: Chain
    is_news: bool


@dataclass
class _Looks:
    """At one chain. calls: those that were looked at, by thread and begin: who made them is known."""

    count: int = 0
    next_check_ns: int = 0
    calls: set[tuple[int, int]] = field(default_factory=set)


class Inquiry:
    """Keeps what has been looked at."""

    def __init__(self) -> None:
        self._looks: dict[str, _Looks] = {}

    def due(self, chains: Iterable[Chain], transitions: Iterable[Transition], now_ns: int) -> list[Due]:
        """Of which chains the threads are to be read at this tick. chains: all that are open; others are forgotten."""
        news = {chain.id for change, chain in transitions if change in (Change.OPENED, Change.ESCALATED)}
        known, self._looks = self._looks, {}
        due = []
        for chain in chains:
            looks = self._looks[chain.id] = known.get(chain.id) or _Looks()
            if looks.count < LOOKS_MAX and (chain.id in news or now_ns >= looks.next_check_ns):
                looks.next_check_ns = now_ns + max(CHECK_NS, (now_ns - chain.opened_ns) // CHECK_LATER)
                due.append(Due(chain, chain.id in news))
        return due

    def suspects(self, due: Iterable[Due], threads: Iterable[ThreadRow]) -> list[Suspects]:
        """Of the chains that are due; threads: those of their processes."""
        rows_of: dict[int, list[ThreadRow]] = {}
        for row in threads:
            rows_of.setdefault(row.process, []).append(row)
        found = []
        for chain, is_news in due:
            looks = self._looks[chain.id]
            feeds = is_news and chain.cause in OF_THE_FEEDER
            rows = _wanted(rows_of.get(chain.process, ()), looks.calls, with_feeders=feeds)
            if rows:
                looks.count += 1
                looks.calls |= {(row.tid, row.opened_ns) for row in rows if row.operation != OPERATION_NONE}
                found.append(Suspects(chain, rows[0].tgid, tuple(row.tid for row in rows)))
        return found


def _wanted(rows: Iterable[ThreadRow], known: set[tuple[int, int]], *, with_feeders: bool) -> Sequence[ThreadRow]:
    """Those that feed the GPU first; of them, and of the others, those that have been where they are for longest."""
    wanted = [
        row
        for row in rows
        if row.tid
        and (_is_stuck(row) or (with_feeders and row.victim is Victim.STEP))
        and (row.operation == OPERATION_NONE or (row.tid, row.opened_ns) not in known)
    ]
    return sorted(wanted, key=lambda row: (row.victim is not Victim.STEP, row.opened_ns))[:THREADS_MAX]


def _is_stuck(row: ThreadRow) -> bool:
    return row.operation != OPERATION_NONE and row.read_ns - row.opened_ns >= STUCK_NS
