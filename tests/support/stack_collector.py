"""A StackCollector with a fake kernel and a fake bcc."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Any

from exporter.chains.chain import Chain, Change, Transition
from exporter.chains.event import ChainProcess
from exporter.chains.evidence import Evidence
from exporter.errors import ProcessGone
from exporter.host.reader import RuleAt
from exporter.host.symbols import AddressNames, CodeAddress
from exporter.kernel.stacks import Stack
from exporter.kernel.thread_rows import ThreadRow
from exporter.stacks.collector import StackCollector
from tests.support.stacks import SECOND, a_stack, a_thread
from tests.support.traced import eventually

PROCESS = ChainProcess(None, 4700, ())
CALLER = 0x3005
STUCK = a_stack(memory={0x7100: CALLER})


class CollectorBench:
    """stack: what the kernel gives for every thread. reads: sets of processes whose threads were read."""

    def __init__(self, stack: Stack | None, *, by_bcc: bool = True, python: Any = None) -> None:
        self.stack = stack
        self.by_bcc = by_bcc
        self.is_gone = self.is_unreadable = False
        self.may_continue = threading.Event()
        self.may_continue.set()
        self.reads: list[set[int]] = []
        self.results: list[str] = []
        self.is_closed = False
        self.begun = self.taken = 0
        self.collector = StackCollector(
            self._read_threads, self, self._rules_of, self, self.results.append, python=python
        )

    def _read_threads(self, of: Collection[int]) -> list[ThreadRow]:
        if self.is_unreadable:
            raise RuntimeError("a defect")
        self.reads.append(set(of))
        return [a_thread(4711, "cudaFree", for_ns=2 * SECOND, process=process) for process in of]

    @staticmethod
    def _rules_of(_tgid: int) -> RuleAt:
        return lambda _address: None

    def take(self, _tid: int) -> Stack | None:
        """Waits for may_continue."""
        self.begun += 1
        self.may_continue.wait(20)
        self.taken += 1
        return self.stack

    def name(self, _tgid: int, places: Iterable[CodeAddress]) -> AddressNames:
        """f1000 for 0x1000."""
        if self.is_gone:
            raise ProcessGone("process 4700 ended")
        return AddressNames({place.address: f"f{place.address:x}" for place in places}, self.by_bcc)

    def close(self) -> None:
        self.is_closed = True

    def tick(self, *chains: Chain, opened: bool = False, at: float = 11) -> list[Evidence]:
        """Evidence of a tick, at a time in seconds."""
        transitions = [Transition(Change.OPENED, chain) for chain in chains if opened]
        return self.collector.tick(chains, transitions, lambda _chain: PROCESS, int(at * SECOND))

    def evidence(self, *chains: Chain) -> Evidence:
        """The next one."""
        found: list[Evidence] = []
        eventually(lambda: found or found.extend(self.tick(*chains)) or found, "there is evidence")
        (one,) = found
        return one
