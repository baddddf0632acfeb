"""witness: what a tick asks for is told at a later one."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext

from exporter.chains.chain import Chain, Change, Transition
from exporter.errors import ProcessGone
from exporter.evidence.witness import WAITING_MAX, Evidence, Whose, Witness
from exporter.host.frame_rules import Rule
from exporter.host.symbols import Named, Place
from exporter.kernel.stacks import Stack
from exporter.kernel.thread_rows import ThreadRow
from tests.support.chains import a_chain
from tests.support.stacks import SECOND, a_stack, a_thread
from tests.support.traced import eventually

WHOSE = Whose(None, 4700, ())
CALLER = 0x3005


class _NoRules:
    def at(self, _address: int) -> Rule | None:
        """The frame pointer is followed."""
        return None


class Scene:
    """A witness with a kernel and a bcc that say what they are told to. reads: processes whose threads were read."""

    def __init__(self, stack: Stack | None, *, by_bcc: bool = True) -> None:
        self.stack = stack
        self.by_bcc = by_bcc
        self.is_gone = self.is_broken = False
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.reads: list[set[int]] = []
        self.results: list[str] = []
        self.is_closed = False
        self.witness = Witness(self._read_threads, self, self._rules_of, self, self.results.append)

    def _read_threads(self, of: Collection[int]) -> list[ThreadRow]:
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

    def name(self, _tgid: int, places: Iterable[Place]) -> Named:
        """Every address by its number."""
        if self.is_gone:
            raise ProcessGone("process 4700 ended")
        return Named({place.address: f"f{place.address:x}" for place in places}, self.by_bcc)

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


STUCK = a_stack(memory={0x7100: CALLER})


class TestWitness:
    """Of one chain."""

    def test_evidence_is_told_at_a_later_tick(self) -> None:
        """With the chain as it is by then, and whose it was when it was looked at."""
        scene = Scene(STUCK)
        assert scene.tick(a_chain(), opened=True) == []
        worse = a_chain(lost_share=0.9)

        assert scene.told(worse) == Evidence(
            worse,
            WHOSE,
            (
                "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
                "  f3005",
                "inside of cudaStreamSynchronize it is at",
                "  f1000",
            ),
        )
        assert scene.results == ["named"]

    def test_chain_that_is_over_by_then_is_told_as_it_was(self) -> None:
        """The job was killed meanwhile."""
        scene = Scene(STUCK)
        scene.tick(a_chain(), opened=True)

        assert scene.told().chain == a_chain()

    def test_without_bcc_it_is_located(self) -> None:
        """Files are all that is known."""
        scene = Scene(STUCK, by_bcc=False)
        scene.tick(a_chain(), opened=True)
        scene.told()

        assert scene.results == ["located"]

    def test_process_that_ends_meanwhile_leaves_its_call(self) -> None:
        """Addresses say nothing any more."""
        scene = Scene(STUCK)
        scene.is_gone = True
        scene.tick(a_chain(), opened=True)

        (line,) = scene.told().lines
        assert line.endswith("where, nobody knows: the process has ended")
        assert scene.results == ["unnamed"]

    def test_thread_that_ended_is_counted_and_not_told(self) -> None:
        """There was no stack to be had."""
        scene = Scene(None)
        scene.tick(a_chain(), opened=True)
        eventually(lambda: scene.results, "it is counted")

        assert scene.results == ["failed"]
        assert scene.tick(a_chain()) == []

    def test_threads_are_not_read_while_no_chain_is_due(self) -> None:
        """It takes milliseconds on a full node."""
        scene = Scene(STUCK)
        scene.tick()
        scene.tick(a_chain(), opened=True)
        scene.tick(a_chain(), at=11.25)

        assert scene.reads == [{1}]

    def test_next_case_is_looked_at_after_a_defect(self) -> None:
        """Which is logged."""
        scene = Scene(STUCK)
        scene.is_broken = True
        scene.tick(a_chain(), opened=True)
        eventually(lambda: not scene.witness._waiting and scene.witness._thread is None, "the defect is over")
        scene.is_broken = False
        other = a_chain(id="2" * 32)
        scene.tick(other, opened=True)

        assert scene.told(other).chain == other


class TestBounds:
    """A node on which everything stands still."""

    def test_what_is_too_much_is_left_out_and_counted(self) -> None:
        """One is being looked at, as many wait as may."""
        scene = Scene(STUCK)
        scene.may_go_on.clear()
        first = a_chain(id="f" * 32)
        scene.tick(first, opened=True)
        eventually(lambda: scene.witness._waiting == 0, "the first one is being looked at")
        chains = [a_chain(id=f"{number:032}", process=number) for number in range(1, WAITING_MAX + 3)]
        scene.tick(*chains, opened=True)

        assert scene.results == ["left_out", "left_out"]
        scene.may_go_on.set()
        eventually(lambda: len(scene.results) == 2 + 1 + WAITING_MAX, "all others are looked at")

    def test_close_waits_for_nobody_for_long(self) -> None:
        """What waits is not begun any more."""
        scene = Scene(STUCK)
        scene.tick(a_chain(), opened=True)
        scene.told(a_chain())
        scene.witness.close()
        scene.tick(a_chain(id="2" * 32), opened=True)

        assert scene.is_closed
        assert scene.results == ["named"]
