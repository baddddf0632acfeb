"""A witness with a kernel and a bcc that say what they are told to."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext

from exporter.chains.chain import Chain, Change, Transition
from exporter.errors import ProcessGone
from exporter.host.eh_frame import Rule
from exporter.host.symbols import AddressNames, CodeAddress
from exporter.kernel.stacks import Stack
from exporter.kernel.thread_rows import ThreadRow
from exporter.stacks.collector import ChainProcess, Evidence, StackCollector
from tests.support.stacks import SECOND, a_stack, a_thread
from tests.support.traced import eventually

WHOSE = ChainProcess(None, 4700, ())
CALLER = 0x3005


STUCK = a_stack(memory={0x7100: CALLER})


class _NoRules:
    def at(self, _address: int) -> Rule | None:
        """The frame pointer is followed."""
        return None


class Scene:
    """A witness with a kernel and a bcc that say what they are told to. reads: processes whose threads were read."""

    def __init__(self, stack: Stack | None, *, by_bcc: bool = True) -> None:
        self.stack = stack
        self.by_bcc = by_bcc
        self.is_gone = self.is_broken = self.is_unreadable = False
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.reads: list[set[int]] = []
        self.results: list[str] = []
        self.is_closed = False
        self.witness = StackCollector(self._read_threads, self, self._rules_of, self, self.results.append)

    def _read_threads(self, of: Collection[int]) -> list[ThreadRow]:
        if self.is_unreadable:
            raise RuntimeError("a defect")
        self.reads.append(set(of))
        return [a_thread(4711, "cudaFree", for_ns=2 * SECOND, process=process) for process in of]

    def _rules_of(self, _tgid: int) -> AbstractContextManager[_NoRules]:
        return nullcontext(_NoRules())

    def take(self, _tid: int) -> Stack | None:
        """When it may."""
        self.may_go_on.wait(20)
        if self.is_broken:
            raise RuntimeError("a defect")
        return self.stack

    def name(self, _tgid: int, places: Iterable[CodeAddress]) -> AddressNames:
        """Every address by its number."""
        if self.is_gone:
            raise ProcessGone("process 4700 ended")
        return AddressNames({place.address: f"f{place.address:x}" for place in places}, self.by_bcc)

    def close(self) -> None:
        """Remembered."""
        self.is_closed = True

    def tick(self, *chains: Chain, opened: bool = False, at: float = 11) -> list[Evidence]:
        """What is told on a tick, at so many seconds."""
        transitions = [Transition(Change.OPENED, chain) for chain in chains if opened]
        return self.witness.tick(chains, transitions, lambda _chain: WHOSE, int(at * SECOND))

    def told(self, *chains: Chain) -> Evidence:
        """The one that comes."""
        found: list[Evidence] = []
        eventually(lambda: found or found.extend(self.tick(*chains)) or found, "evidence is told")
        (one,) = found
        return one
