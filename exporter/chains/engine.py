"""Turns observations of every process at every tick into transitions of chains: opened, escalated, resolved.

In: Observations, the time. Out: Transitions. Nothing here reads a clock, a map or a file.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial, reduce
from types import MappingProxyType
from typing import NamedTuple

from exporter.accounting.progress import WorkloadProgress
from exporter.causes import Cause
from exporter.chains import findings
from exporter.chains.balance import Balance, Surplus
from exporter.chains.capture import Captures
from exporter.chains.chain import Chain, Change, Effect, End, Transition
from exporter.chains.cold_start import Cold
from exporter.chains.conditions import Conditions, Wrong, out_of_memory
from exporter.chains.detector import Detector, Readings
from exporter.chains.exit_reason import Ending
from exporter.chains.gpu import UNSEEN, DeviceSide
from exporter.chains.memory import Allocations
from exporter.chains.ranks import Communicators, waited_ns
from exporter.chains.span import Collective, ProcessState, Span
from exporter.chains.spending import Spending
from exporter.chains.standstill import Standstill
from exporter.chains.verdict import severity_of

_ID_BYTES = 16  # of a W3C trace id


class Observation(NamedTuple):
    """A process at a tick. collectives: by hash of the communicator. unfinished, is_server: see ProcessState."""

    progress: WorkloadProgress
    collectives: Mapping[int, Collective] = {}
    allocations: Allocations = Allocations()
    captures: Captures = Captures()
    unfinished: Mapping[int, int] = {}
    is_server: bool = False


class Wanted(NamedTuple):
    """What the next tick has to read, because a verdict waits for it.

    is_urgent: programs that held CPUs. with_threads: the current state of threads.
    """

    is_urgent: bool = False
    with_threads: bool = False


NOTHING = Wanted()


def random_id() -> str:
    """Id of a chain and of its trace."""
    return secrets.token_hex(_ID_BYTES)


class Engine:
    """Owns the open chains.

    new_id: 32 hexadecimal digits, never all zero. spending: of a process, so far; device_side: of a process, between two
    moments. Both are read only when a verdict needs them.
    """

    def __init__(
        self,
        new_id: Callable[[], str] = random_id,
        spending: Callable[[int], Spending] = lambda _process: Spending(),
        device_side: Callable[[int, int, int], DeviceSide] = lambda _process, _then_ns, _now_ns: UNSEEN,
    ) -> None:
        self._new_id = new_id
        self._spending = spending
        self._device_side = device_side
        self._detectors: dict[int, Detector] = {}
        self._balances: dict[int, Balance] = {}
        self._standstills: dict[int, Standstill] = {}
        self._conditions: dict[int, Conditions] = {}
        self._communicators = Communicators()
        self._failures: dict[tuple[int, Cause], Chain] = {}  # conditions that make no step slower
        self._surplus_of_ended = Surplus()
        self.wanted = NOTHING

    def update(self, processes: Mapping[int, Observation], now_ns: int) -> list[Transition]:
        """Update at a tick with the processes that may have changed."""
        transitions: list[Transition] = []
        for number, observed in processes.items():
            if number not in self._detectors:
                self._balances[number] = Balance()
                self._detectors[number] = Detector(number, self._new_id, self._balances[number])
                self._standstills[number] = Standstill(number, self._new_id)
                self._conditions[number] = Conditions(now_ns)
            self._detectors[number].add(
                ProcessState(
                    now_ns,
                    observed.progress,
                    observed.collectives,
                    unfinished=observed.unfinished,
                    is_server=observed.is_server,
                )
            )
        missing = self._communicators.update({number: one.collectives for number, one in processes.items()}, now_ns)
        absent = {
            one.process: one
            for one in missing
            if not findings.has_no_cpu(self._detectors[one.process].since(one.since_ns))
        }
        awaited = self._awaited()
        for number, observed in processes.items():
            detector, standstill = self._detectors[number], self._standstills[number]
            is_explained = any(one.explains_standstill for one in detector.episodes) or any(
                one.is_awaited_by(number, observed.collectives) for one in missing
            )
            transitions += standstill.update(
                detector.last,
                absent.get(number),
                detector.pace_ns,
                slow_step_ns=max((one.step_ns for one in detector.episodes), default=0),
                is_explained=is_explained,
            )
            transitions += detector.update(
                self._waited_by(number),
                Readings(
                    cache(partial(self._spending, number)),  # a verdict may ask twice
                    partial(self._device_side, number),
                    partial(self._slow_peer, number),
                ),
                is_in_doubt=standstill.is_in_doubt,
                awaited_since_ns=awaited.get(number, 0),
            )
            transitions += self._look_at_conditions(number, observed, now_ns)
        needs_threads = any(one.is_stuck for one in self._detectors.values())
        self.wanted = Wanted(
            any(one.is_undecided for one in self._detectors.values()),
            needs_threads or any(one.needs_threads for one in self._standstills.values()),
        )
        return transitions

    def end(
        self, processes: Iterable[int], now_ns: int, endings: Mapping[int, Ending] = MappingProxyType({})
    ) -> list[Transition]:
        """Resolve the chains of processes that have ended. endings: how they ended, where it is known."""
        transitions: list[Transition] = []
        for number in processes:
            detector, conditions = self._detectors.pop(number, None), self._conditions.pop(number, None)
            if detector is not None:
                self._surplus_of_ended = self._surplus_of_ended.plus(self._balances.pop(number).surplus)
                transitions += self._standstills.pop(number).end(now_ns) + detector.end(now_ns)
            memory = conditions.out_of_memory if conditions else None
            if memory and memory.is_certain(now_ns, has_ended=True) and (number, Cause.CUDA_OOM) not in self._failures:
                transitions.append(self._fail(number, out_of_memory(memory, memory.since_ns), now_ns))
            failures = [key for key in self._failures if key[0] == number]
            transitions += [self._failures.pop(key).resolved(now_ns, End.JOB_ENDED) for key in failures]
            if number in endings and (number, Cause.CUDA_OOM) not in failures:
                transitions += self._crashed(number, endings[number], now_ns)
        return transitions

    def _crashed(self, number: int, ending: Ending, now_ns: int) -> list[Transition]:
        """Nothing for a process that ended regularly."""
        if ending.cause is None:
            return []
        crash = Wrong(ending.cause, Effect.EXIT, ending.at_ns or now_ns, ending.sentence)
        return self._at_once(number, crash, now_ns, End.JOB_ENDED)

    def is_watched(self, number: int) -> bool:
        """Whether it has a rhythm or an open chain: for such a process no change is information, too."""
        detector = self._detectors.get(number)
        has_failed = any(process == number for process, _ in self._failures)
        return detector is not None and (
            detector.has_rhythm or bool(detector.chains) or bool(self._standstills[number].chains) or has_failed
        )

    def cold_start(self, number: int) -> Cold | None:
        """Cost of the first steps of a process; None until it is known."""
        conditions = self._conditions.get(number)
        return conditions.cold_start.cold if conditions else None

    @property
    def imbalance(self) -> float:
        """Lost time of all processes beyond what their steps take longer, as a share of the time that was compared."""
        living = (balance.surplus for balance in self._balances.values())
        return reduce(Surplus.plus, living, self._surplus_of_ended).share

    def open_chains(self) -> list[Chain]:
        sources: list[Detector | Standstill] = [*self._detectors.values(), *self._standstills.values()]
        return [chain for source in sources for chain in source.chains] + list(self._failures.values())

    def _waited_by(self, number: int) -> Callable[[Span], Mapping[str, int]]:
        def waited(span: Span) -> Mapping[str, int]:
            own = span.now.collectives.keys()
            if not own:
                return {}
            others = (
                detector
                for other, detector in self._detectors.items()
                if other != number and detector.ranks.keys() & own
            )
            return waited_ns(span, (detector.span(span) for detector in others))

        return waited

    def _slow_peer(self, number: int) -> str:
        """The rank with the worst open chain of its own, of those in a communicator of this process."""
        own = self._detectors[number].ranks.keys()
        slow = [
            (chain.lost_share, str(rank))
            for other, detector in self._detectors.items()
            for chain in detector.chains
            for communicator, rank in detector.ranks.items()
            if other != number and communicator in own and chain.cause is not Cause.PEER_RANK
        ]
        return max(slow, default=(0.0, ""))[1]

    def _awaited(self) -> dict[int, int]:
        """Process -> since when an open chain of another process names it as the rank it waits for."""
        awaited: dict[int, int] = {}
        for waiting in self._detectors.values():
            chain = next((one for one in waiting.chains if one.cause is Cause.PEER_RANK), None)
            if chain is None:
                continue
            own = waiting.ranks.keys()
            for number, detector in self._detectors.items():
                if detector is not waiting and any(
                    str(rank) == chain.peer for at, rank in detector.ranks.items() if at in own
                ):
                    awaited[number] = min(awaited.get(number, chain.began_ns), chain.began_ns)
        return awaited

    def _look_at_conditions(self, number: int, observed: Observation, now_ns: int) -> list[Transition]:
        conditions, detector = self._conditions[number], self._detectors[number]
        steps = observed.progress.steps
        conditions.update(observed.allocations, observed.captures, steps, now_ns)
        transitions: list[Transition] = []
        for wrong in conditions.all(now_ns):
            failure = self._failures.get((number, wrong.cause))
            if failure is None and wrong.since_ns:
                transitions.append(self._fail(number, wrong, now_ns))
            elif failure is not None and not wrong.since_ns:
                transitions.append(self._failures.pop((number, wrong.cause)).resolved(now_ns, End.RECOVERED))
        spending = partial(self._spending, number)
        cold = conditions.cold_start.update(now_ns, steps, spending, has_rhythm=detector.has_rhythm)
        if cold is not None and cold.is_much:
            was_cold = Wrong(Cause.COLD_START, cold.effect, cold.began_ns, cold.detail, cold.lost_share, cold.lost_ns)
            transitions += self._at_once(number, was_cold, now_ns, End.RECOVERED)
        change = detector.lasting_change()
        if change is not None:
            before_ns = round(change.step_ns_before)
            changed = Wrong(Cause.CHANGED, Effect.STEP, change.began_ns, change.detail, usual_step_ns=before_ns)
            transitions += self._at_once(number, changed, now_ns, End.CHANGED)
        return transitions

    def _at_once(self, number: int, wrong: Wrong, now_ns: int, end: End) -> list[Transition]:
        """A chain that is resolved as soon as it is opened."""
        opened = self._fail(number, wrong, now_ns)
        return [opened, self._failures.pop((number, wrong.cause)).resolved(now_ns, end)]

    def _fail(self, number: int, wrong: Wrong, now_ns: int) -> Transition:
        chain = self._failures[number, wrong.cause] = Chain(
            id=self._new_id(),
            process=number,
            cause=wrong.cause,
            effect=wrong.effect,
            severity=severity_of(wrong.cause, 1.0),
            began_ns=wrong.since_ns,
            opened_ns=now_ns,
            updated_ns=now_ns,
            slowdown=None,
            usual_step_ns=wrong.usual_step_ns,
            lost_share=wrong.lost_share,
            contribution=1.0,
            detail=wrong.detail,
            lost_ns=wrong.lost_ns,
        )
        return Transition(Change.OPENED, chain)
