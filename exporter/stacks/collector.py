"""Samples stacks of threads and names their functions, in a thread of its own: a tick requests, and a later tick gets the result.

In: chains and their transitions. Out: Evidence, for one chain at a time. The thread ends when no request is left. Interpreters of
Python are found there as well, before a chain needs them, because the kernel reads frames of slow calls only where it knows them.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from exporter.chains.chain import Chain, Transition
from exporter.chains.event import ChainProcess
from exporter.chains.evidence import Evidence
from exporter.errors import NoAnswer, NotPossibleHere, ProcessGone
from exporter.host.reader import RuleAt
from exporter.host.symbols import CodeAddress, Symbols
from exporter.kernel.stacks import Stack, Stacks
from exporter.kernel.thread_rows import ThreadRow
from exporter.python.call_site import CallSite
from exporter.stacks.format import PythonSection, format_stack, format_without_names
from exporter.stacks.moments import take_showing
from exporter.stacks.python_evidence import PythonEvidence, SlowCallsOfChain
from exporter.stacks.selection import SampleRequest, ThreadSelection, feeders
from exporter.stacks.unwinding import Backtrace, unwind
from exporter.threads.on_demand import OnDemandThread

QUEUE_MAX = 16
"""Requests that may wait. If more chains open at once on a node, they have a cause in common."""

TAKES_MAX = 3
"""How often the stacks of one request are taken."""

NAMED, LOCATED, UNNAMED, FAILED, LEFT_OUT = RESULTS = ("named", "located", "unnamed", "failed", "left_out")
"""Results of one stack: functions named by bcc; only files known; the process had ended; no stack taken; the queue was full."""

ReadThreads = Callable[[Collection[int]], list[ThreadRow]]
"""The living threads of these processes."""

Count = Callable[[str], None]
"""Takes one of RESULTS; called from any thread."""

RulesOf = Callable[[int], RuleAt]
"""Unwind rules of a process, by its tgid. Raises NoAnswer."""


class StackCollector:
    """One for all chains. tick() and close() are called from one thread.

    python: None where frames of Python cannot be read. on_idle: called when no request is left.
    """

    def __init__(
        self,
        read_threads: ReadThreads,
        stacks: Stacks,
        rules_of: RulesOf,
        symbols: Symbols,
        count: Count,
        *,
        python: PythonEvidence | None = None,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self._read_threads = read_threads
        self._stacks = stacks
        self._rules_of = rules_of
        self._symbols = symbols
        self._count = count
        self._python = python
        self._selection = ThreadSelection()
        self._results: queue.SimpleQueue[Evidence] = queue.SimpleQueue()
        self._thread = OnDemandThread("stacks", QUEUE_MAX, on_idle)

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
                self._request(partial(self._sample, sample, process_of(sample.chain)), len(sample.tids))
        if self._python is not None:
            follow = self._python.due(now_ns)
            if follow is not None:
                self._request(follow)
            self._request_lines(self._python, chains, process_of, now_ns)
        return list(_drained(self._results))

    def call_sites(self, process: int) -> tuple[CallSite, ...]:
        """Slow calls of a process so far, by line of Python. From any thread."""
        return self._python.named_sites.call_sites(process) if self._python is not None else ()

    @property
    def call_sites_read_ns(self) -> int:
        """When call sites were read last, CLOCK_MONOTONIC; 0 for never."""
        return self._python.named_sites.read_ns if self._python is not None else 0

    def call_sites_since(self, process: int, since_ns: int) -> tuple[CallSite, ...]:
        """Those of the time since then. From any thread."""
        return self._python.call_sites_since(process, since_ns) if self._python is not None else ()

    def close(self) -> None:
        """Drops the requests that wait."""
        self._thread.close()
        self._symbols.close()
        self._thread.join()

    def _request(self, work: Callable[[], None], stacks: int = 0) -> None:
        if not self._thread.run(work):
            for _ in range(stacks):
                self._count(LEFT_OUT)

    def _sample(self, sample: SampleRequest, process: ChainProcess) -> None:
        """Takes all stacks first, while the threads are stuck; naming takes a second."""
        chain, tgid, tids = sample
        stacks, python = self._taken(sample)
        for _ in range(len(tids) - len(stacks)):
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
            lines = [
                line
                for stack, backtrace in pairs
                for line in format_stack(stack, backtrace, names.texts, python.get(stack.tid))
            ]
            result = NAMED if names.by_bcc else LOCATED
        self._results.put(Evidence(chain, process, tuple(lines)))
        for _ in stacks:
            self._count(result)

    def _taken(self, sample: SampleRequest) -> tuple[list[Stack], dict[int, PythonSection]]:
        """Again if a thread goes on while its tasks are read: a second time what they need of the process is known."""
        chain, tgid, (first, *others) = sample
        for _ in range(TAKES_MAX):
            taken = [take_showing(chain.cause, first, self._stacks.take), *map(self._stacks.take, others)]
            stacks = [stack for stack in taken if stack is not None]
            python = self._python.of_stacks(tgid, stacks) if self._python else {}
            if not any(section.has_gone_on for section in python.values()):
                break
        return stacks, python

    def _request_lines(
        self,
        python: PythonEvidence,
        chains: Collection[Chain],
        process_of: Callable[[Chain], ChainProcess],
        now_ns: int,
    ) -> None:
        due = [(slow, process_of(slow.chain)) for slow in python.slow_calls(chains, now_ns)]
        due = [(slow, process) for slow, process in due if python.can_read(process.tgid)]
        threads = self._read_threads({slow.chain.process for slow, _ in due}) if due else ()
        for slow, process in due:
            self._request(partial(self._name_lines, python, slow, process, feeders(slow.chain.process, threads)))

    def _name_lines(
        self, python: PythonEvidence, slow: SlowCallsOfChain, process: ChainProcess, tids: Sequence[int]
    ) -> None:
        lines = python.lines_of(slow, process.tgid, tids, self._stacks.take)
        if lines:
            self._results.put(Evidence(slow.chain, process, lines))


def _code_addresses(stack: Stack, backtrace: Backtrace) -> Iterator[CodeAddress]:
    yield CodeAddress(stack.instruction, is_return=False)
    for frame in (*backtrace.within, *backtrace.callers):
        yield CodeAddress(frame.address, is_return=True)


def _drained(results: queue.SimpleQueue[Evidence]) -> Iterator[Evidence]:
    while True:
        try:
            yield results.get_nowait()
        except queue.Empty:
            return
