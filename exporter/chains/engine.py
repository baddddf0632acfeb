"""From what is seen of every process at every tick to causal chains: opened, escalated, resolved.

In: Observations, the time. Out: Transitions. Nothing here reads a clock, a map or a file.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from exporter.accounting.standing import Standing
from exporter.chains.chain import Cause, Chain, Change, Effect, End, Severity, Transition
from exporter.chains.ending import Ending
from exporter.chains.memory import Allocations, OutOfMemory
from exporter.chains.ranks import Communicators, waited_ns
from exporter.chains.span import Collective, Seen, Span
from exporter.chains.watch import Watch

_ID_BYTES = 16  # of a W3C trace id


class Observation(NamedTuple):
    """What is known of a process at a tick. collectives: by the communicator's hash."""

    standing: Standing
    collectives: Mapping[int, Collective] = {}
    allocations: Allocations = Allocations()


class Wanted(NamedTuple):
    """What is to be read at the next tick, because a verdict waits for it.

    is_urgent: who held CPUs. with_threads: what threads do right now.
    """

    is_urgent: bool = False
    with_threads: bool = False


NOTHING = Wanted()


class Engine:
    """Owns the open chains.

    new_id: 32 hexadecimal digits, never all zero. call_times: of a process, nanoseconds in calls of each kind so far.
    """

    def __init__(
        self,
        new_id: Callable[[], str] = lambda: secrets.token_hex(_ID_BYTES),
        call_times: Callable[[int], Mapping[Effect, int]] = lambda _process: {},
    ) -> None:
        self._new_id = new_id
        self._call_times = call_times
        self._watches: dict[int, Watch] = {}
        self._memory: dict[int, OutOfMemory] = {}
        self._communicators = Communicators()
        self._failures: dict[int, Chain] = {}  # out of memory, or crashed
        self.wanted = NOTHING

    def update(self, processes: Mapping[int, Observation], now_ns: int) -> list[Transition]:
        """One tick more, of the processes of which there may be news."""
        transitions: list[Transition] = []
        for number, observed in processes.items():
            if number not in self._watches:
                self._watches[number] = Watch(number, self._new_id)
                self._memory[number] = OutOfMemory()
            self._watches[number].see(Seen(now_ns, observed.standing, observed.collectives))
        missing = self._communicators.update({number: one.collectives for number, one in processes.items()}, now_ns)
        absent = {one.process: one for one in missing}
        awaited = self._awaited()
        for number, observed in processes.items():
            transition = self._watches[number].update(
                self._waited_by(number),
                absent.get(number),
                partial(self._call_times, number),
                awaited_since_ns=awaited.get(number, 0),
            )
            transitions += [transition] if transition else []
            transitions += self._look_at_memory(number, observed.allocations, now_ns)
        watches = self._watches.values()
        self.wanted = Wanted(any(one.is_undecided for one in watches), any(one.is_stuck for one in watches))
        return transitions

    def end(
        self, processes: Iterable[int], now_ns: int, endings: Mapping[int, Ending] = MappingProxyType({})
    ) -> list[Transition]:
        """They have ended: nothing of theirs stays open. endings: how, of those of which it is known."""
        transitions: list[Transition] = []
        for number in processes:
            watch, memory = self._watches.pop(number, None), self._memory.pop(number, None)
            transition = watch.end(now_ns) if watch else None
            transitions += [transition] if transition else []
            if memory and memory.is_certain(now_ns, has_ended=True) and number not in self._failures:
                transitions.append(self._fail(number, memory.since_ns, now_ns))
            failure = self._failures.pop(number, None)
            if failure is not None:
                transitions.append(failure.resolved(now_ns, End.JOB_ENDED))
            elif number in endings:
                transitions += self._crashed(number, endings[number], now_ns)
        return transitions

    def _crashed(self, number: int, ending: Ending, now_ns: int) -> list[Transition]:
        """A chain that is over as soon as it is opened; none where the process has ended as it was meant to."""
        if ending.cause is None:
            return []
        opened = self._fail(number, ending.at_ns or now_ns, now_ns, ending.cause, ending.sentence)
        return [opened, self._failures.pop(number).resolved(now_ns, End.JOB_ENDED)]

    def is_watched(self, number: int) -> bool:
        """Whether it has a rhythm, or an open chain: that nothing moves is news of such a process."""
        watch = self._watches.get(number)
        return watch is not None and (watch.has_rhythm or watch.chain is not None or number in self._failures)

    def open_chains(self) -> list[Chain]:
        """Of all processes."""
        return [watch.chain for watch in self._watches.values() if watch.chain] + list(self._failures.values())

    def _waited_by(self, number: int) -> Callable[[Span], Mapping[str, int]]:
        def waited(span: Span) -> Mapping[str, int]:
            own = span.now.collectives.keys()
            if not own:
                return {}
            others = (watch for other, watch in self._watches.items() if other != number and watch.ranks.keys() & own)
            return waited_ns(span, (watch.span(span) for watch in others))

        return waited

    def _awaited(self) -> dict[int, int]:
        """Processes that an open chain of another one names as the rank it waits for, and since when."""
        awaited: dict[int, int] = {}
        for waiting in self._watches.values():
            chain = waiting.chain
            if chain is None or chain.cause is not Cause.PEER_RANK:
                continue
            own = waiting.ranks.keys()
            for number, watch in self._watches.items():
                if watch is not waiting and any(
                    str(rank) == chain.peer for at, rank in watch.ranks.items() if at in own
                ):
                    awaited[number] = min(awaited.get(number, chain.began_ns), chain.began_ns)
        return awaited

    def _look_at_memory(self, number: int, allocations: Allocations, now_ns: int) -> list[Transition]:
        memory = self._memory[number]
        memory.update(allocations, now_ns)
        failure = self._failures.get(number)
        if failure is None and memory.is_certain(now_ns):
            return [self._fail(number, memory.since_ns, now_ns)]
        if failure is not None and not memory.since_ns:
            del self._failures[number]
            return [failure.resolved(now_ns, End.RECOVERED)]
        return []

    def _fail(
        self, number: int, since_ns: int, now_ns: int, cause: Cause = Cause.CUDA_OOM, ending: str = ""
    ) -> Transition:
        chain = self._failures[number] = Chain(
            id=self._new_id(),
            process=number,
            cause=cause,
            effect=Effect.EXIT if ending else Effect.ALLOC,
            severity=Severity.CRITICAL,
            began_ns=since_ns,
            opened_ns=now_ns,
            updated_ns=now_ns,
            slowdown=None,
            usual_step_ns=0,
            lost_share=0.0,
            contribution=1.0,
            ending=ending,
        )
        return Transition(Change.OPENED, chain)
