"""Samples stacks of threads and names their functions, in a thread of its own: a tick requests, and a later tick gets the result.

In: chains and their transitions. Out: Evidence, for one chain at a time. The thread ends when no request is left.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from exporter.chains.chain import Chain, Transition
from exporter.chains.event import ChainProcess
from exporter.errors import NoAnswer, NotPossibleHere, ProcessGone
from exporter.host.reader import RuleAt
from exporter.host.symbols import CodeAddress, Symbols
from exporter.kernel.stacks import Stack, Stacks
from exporter.kernel.thread_rows import ThreadRow
from exporter.stacks.format import format_stack, format_without_names
from exporter.stacks.selection import SampleRequest, ThreadSelection
from exporter.stacks.unwinding import Backtrace, unwind

log = logging.getLogger(__name__)

QUEUE_MAX = 16
"""Requests that may wait. If more chains open at once on a node, they have a cause in common."""

STOP_SECONDS = 2.0
"""A stop waits so long for the thread, which may be waiting for a lock on a process's memory map."""

NAMED, LOCATED, UNNAMED, FAILED, LEFT_OUT = RESULTS = ("named", "located", "unnamed", "failed", "left_out")
"""Results of one stack: functions named by bcc; only files known; the process had ended; no stack taken; the queue was full."""

ReadThreads = Callable[[Collection[int]], list[ThreadRow]]
"""The living threads of these processes."""

Count = Callable[[str], None]
"""Takes one of RESULTS; called from any thread."""

RulesOf = Callable[[int], RuleAt]
"""Unwind rules of a process, by its tgid. Raises NoAnswer."""


class Evidence(NamedTuple):
    """lines: text about the sampled threads. chain: as it is now, or as it was if it is resolved."""

    chain: Chain
    process: ChainProcess
    lines: tuple[str, ...]


class _Request(NamedTuple):
    sample: SampleRequest
    process: ChainProcess


class StackCollector:
    """One for all chains. tick() and close() are called from one thread.

    on_idle: called when no request is left.
    """

    def __init__(
        self,
        read_threads: ReadThreads,
        stacks: Stacks,
        rules_of: RulesOf,
        symbols: Symbols,
        count: Count,
        *,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._read_threads = read_threads
        self._stacks = stacks
        self._rules_of = rules_of
        self._symbols = symbols
        self._count = count
        self._on_idle = on_idle
        self._selection = ThreadSelection()
        self._requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Evidence] = queue.SimpleQueue()
        self._lock = threading.Lock()  # for the next three
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def tick(
        self,
        chains: Collection[Chain],
        transitions: Collection[Transition],
        process_of: Callable[[Chain], ChainProcess],
        now_ns: int,
    ) -> list[Evidence]:
        """Requests samples, and returns the evidence since the last tick. chains: all open ones."""
        due = self._selection.due(chains, transitions, now_ns)
        if due:
            threads = self._read_threads({one.chain.process for one in due})
            for sample in self._selection.select(due, threads):
                self._request(_Request(sample, process_of(sample.chain)))
        newest = {chain.id: chain for chain in chains}
        return [one._replace(chain=newest.get(one.chain.id, one.chain)) for one in _drained(self._results)]

    def close(self) -> None:
        """Drops the requests that wait."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._symbols.close()
        if thread is not None:
            thread.join(STOP_SECONDS)

    def _request(self, request: _Request) -> None:
        with self._lock:
            if self._waiting >= QUEUE_MAX:
                for _ in request.sample.tids:
                    self._count(LEFT_OUT)
                return
            self._waiting += 1
            self._requests.put(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="stacks", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._is_closed or not self._waiting:
                    self._thread = None
                    break
                request = self._requests.get()
                self._waiting -= 1
            try:
                self._sample(request)
            except Exception:  # a defect must not lose the next request
                log.exception("stack sampling failed: defect in the exporter")
        self._on_idle()

    def _sample(self, request: _Request) -> None:
        """Takes all stacks first, while the threads are stuck; naming takes a second."""
        chain, tgid, tids = request.sample
        taken = [self._stacks.take(tid) for tid in tids]
        stacks = [stack for stack in taken if stack is not None]
        for _ in range(len(taken) - len(stacks)):
            self._count(FAILED)
        if not stacks:
            return
        try:
            rule_at = self._rules_of(tgid)
            backtraces = [unwind(stack, rule_at) for stack in stacks]
        except NoAnswer:
            backtraces = [Backtrace((), ()) for _ in stacks]
        pairs = list(zip(stacks, backtraces, strict=True))
        try:
            names = self._symbols.name(tgid, (address for pair in pairs for address in _code_addresses(*pair)))
        except (ProcessGone, NotPossibleHere, NoAnswer):
            lines = [line for stack in stacks for line in format_without_names(stack)]
            result = UNNAMED
        else:
            lines = [line for stack, backtrace in pairs for line in format_stack(stack, backtrace, names.texts)]
            result = NAMED if names.by_bcc else LOCATED
        self._results.put(Evidence(chain, request.process, tuple(lines)))
        for _ in stacks:
            self._count(result)


def _code_addresses(stack: Stack, backtrace: Backtrace) -> Iterator[CodeAddress]:
    yield CodeAddress(stack.instruction, is_return=False)
    for address in (*backtrace.within, *backtrace.callers):
        yield CodeAddress(address, is_return=True)


def _drained(results: queue.SimpleQueue[Evidence]) -> Iterator[Evidence]:
    while True:
        try:
            yield results.get_nowait()
        except queue.Empty:
            return
