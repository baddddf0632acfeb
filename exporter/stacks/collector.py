"""Takes the stacks of threads and names what is on them, in a thread of its own: a tick asks, and a later one is told.

In: Suspects; Stacks, the rules of functions, Symbols. Out: Evidence, of one process after the other. The thread ends
when there is no more to do.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from exporter.chains.chain import Chain, Transition
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.eh_frame import Rule
from exporter.host.symbols import AddressNames, CodeAddress
from exporter.kernel.stacks import Stack
from exporter.kernel.thread_rows import ThreadRow
from exporter.model import Identity
from exporter.stacks.format import lines_of, unnamed
from exporter.stacks.selection import Inquiry, Suspects
from exporter.stacks.unwinding import Way, way_of

log = logging.getLogger(__name__)

WAITING_MAX = 16
"""Cases that wait: a node on which more chains open at once has one reason for all of them."""

STOP_SECONDS = 2.0
"""What a clean stop grants the thread: it may wait for a memory map that somebody else holds."""

NAMED, LOCATED, UNNAMED, FAILED, LEFT_OUT = RESULTS = ("named", "located", "unnamed", "failed", "left_out")
"""Of one stack: functions were looked up with bcc; files alone; the process had ended; nothing was had; too many waited."""

ReadThreads = Callable[[Collection[int]], list[ThreadRow]]
"""The living threads of these processes."""

Count = Callable[[str], None]
"""Takes one of RESULTS; called from any thread."""


class ChainProcess(NamedTuple):
    """As it was when the thread was looked at: a process may have ended when that is told."""

    identity: Identity | None
    tgid: int
    culprit_tgids: tuple[int, ...]


class Evidence(NamedTuple):
    """Lines about the threads of a chain, which is as it was when they were looked at."""

    chain: Chain
    process: ChainProcess
    lines: tuple[str, ...]


class TakesStacks(Protocol):
    """exporter.kernel.stacks.Stacks."""

    def take(self, tid: int) -> Stack | None:
        """Of one thread; None when that could not be had."""


class NamesPlaces(Protocol):
    """exporter.host.symbols.Symbols."""

    def name(self, tgid: int, places: Iterable[CodeAddress]) -> AddressNames:
        """Raises ProcessGone, NotPossibleHere."""

    def close(self) -> None:
        """End what is going on."""


class KnowsRules(Protocol):
    """exporter.host.eh_frame.FrameRules."""

    def at(self, address: int) -> Rule | None:
        """Of an address in the process."""


RulesOf = Callable[[int], AbstractContextManager[KnowsRules]]
"""Of a process, by its tgid."""


class _Case(NamedTuple):
    suspects: Suspects
    process: ChainProcess


class StackCollector:
    """One for all chains. tick() and close() are called from one thread."""

    def __init__(
        self,
        read_threads: ReadThreads,
        stacks: TakesStacks,
        rules_of: RulesOf,
        symbols: NamesPlaces,
        count: Count,
    ) -> None:
        self._read_threads = read_threads
        self._stacks = stacks
        self._rules_of = rules_of
        self._symbols = symbols
        self._count = count
        self._inquiry = Inquiry()
        self._cases: queue.SimpleQueue[_Case] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[Evidence] = queue.SimpleQueue()
        self._lock = threading.Lock()  # for the next three
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def tick(
        self,
        chains: Collection[Chain],
        transitions: Collection[Transition],
        whose: Callable[[Chain], ChainProcess],
        now_ns: int,
    ) -> list[Evidence]:
        """What has become known since the last tick. chains: those that are open. whose: its process."""
        due = self._inquiry.due(chains, transitions, now_ns)
        if due:
            threads = self._read_threads({one.chain.process for one in due})
            for suspects in self._inquiry.suspects(due, threads):
                self._ask(_Case(suspects, whose(suspects.chain)))
        newest = {chain.id: chain for chain in chains}
        return [one._replace(chain=newest.get(one.chain.id, one.chain)) for one in _drained(self._told)]

    def close(self) -> None:
        """Nothing is looked at any more."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._symbols.close()
        if thread is not None:
            thread.join(STOP_SECONDS)

    def _ask(self, case: _Case) -> None:
        with self._lock:
            if self._waiting >= WAITING_MAX:
                for _ in case.suspects.tids:
                    self._count(LEFT_OUT)
                return
            self._waiting += 1
            self._cases.put(case)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="witness", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        """Until there is no more to do."""
        while True:
            with self._lock:
                if self._is_closed or not self._waiting:
                    self._thread = None
                    return
                case = self._cases.get()
                self._waiting -= 1
            try:
                self._look(case)
            except Exception:  # a defect here must not cost the next case
                log.exception("evidence failed")

    def _look(self, case: _Case) -> None:
        """First all stacks, while the threads are where they are; names take a second."""
        chain, tgid, tids = case.suspects
        taken = [self._stacks.take(tid) for tid in tids]
        stacks = [stack for stack in taken if stack is not None]
        for _ in range(len(taken) - len(stacks)):
            self._count(FAILED)
        if not stacks:
            return
        with self._rules_of(tgid) as rules:
            ways = [way_of(stack, rules.at) for stack in stacks]
        seen = list(zip(stacks, ways, strict=True))
        try:
            named = self._symbols.name(tgid, (place for stack, way in seen for place in _places(stack, way)))
        except (ProcessGone, NotPossibleHere):
            lines = [line for stack in stacks for line in unnamed(stack)]
            result = UNNAMED
        else:
            lines = [line for stack, way in seen for line in lines_of(stack, way, named.texts)]
            result = NAMED if named.by_bcc else LOCATED
        self._told.put(Evidence(chain, case.process, tuple(lines)))
        for _ in stacks:
            self._count(result)


def _places(stack: Stack, way: Way) -> Iterator[CodeAddress]:
    yield CodeAddress(stack.instruction, is_return=False)
    for address in (*way.within, *way.callers):
        yield CodeAddress(address, is_return=True)


def _drained(told: queue.SimpleQueue[Evidence]) -> Iterator[Evidence]:
    while True:
        try:
            yield told.get_nowait()
        except queue.Empty:
            return
