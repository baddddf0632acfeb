"""Who was waited for: holders of locks, writers and readers of pipes, children.

In: sleeps that have ended, cumulative, and blocked writes that go on. Out: the latest sleeps of each job by who ended them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporter.accounting.culprits import NO_CULPRIT, OUTSIDE, program_name
from exporter.accounting.sharing import Growth, Weights
from exporter.kernel.abi import Awaited, ThreadState
from exporter.kernel.awaited_rows import AwaitedBy, AwaitedKey
from exporter.kernel.thread_rows import ThreadRow

Sleeps = Mapping[tuple[ThreadState, AwaitedBy], int]
"""Nanoseconds slept since the last update, by state and by who ended the sleep."""

OF_THE_JOB = (Awaited.THREAD, Awaited.WORKER)


class AwaitedSleeps:
    """Remembers the last sums."""

    def __init__(self) -> None:
        self._slept: Growth[AwaitedKey] = Growth()

    def update(self, rows: Mapping[AwaitedKey, int], threads: Iterable[ThreadRow]) -> dict[int, Sleeps]:
        """By process. threads: the living ones, if they were read: a write that is blocked counts since it began."""
        sleeps: dict[int, dict[tuple[ThreadState, AwaitedBy], int]] = {}
        for key, slept_ns in self._slept.since(rows).items():
            sleeps.setdefault(key.process, {})[key.state, key.by] = slept_ns
        for thread in threads:
            if thread.reader.kind is not Awaited.UNKNOWN:
                sleeping = (ThreadState.OUTPUT, thread.reader)
                of_process = sleeps.setdefault(thread.process, {})
                of_process[sleeping] = of_process.get(sleeping, 0) + thread.open_ns[ThreadState.OUTPUT]
        return dict(sleeps)


def awaited_name(by: AwaitedBy) -> str:
    """Name of the program, or of the thread in the same process."""
    if by.kind is Awaited.OUTSIDE:
        return OUTSIDE
    return program_name(by.comm) if by.kind is not Awaited.UNKNOWN else NO_CULPRIT


class AwaitedShares:
    """Who has ended the sleeps of one job lately, by state."""

    def __init__(self) -> None:
        self._weights: dict[ThreadState, Weights[tuple[Awaited, str]]] = {}

    def update(self, labelled: Mapping[ThreadState, Mapping[tuple[Awaited, str], int]], now_ns: int) -> None:
        """labelled: state -> (kind, label) -> nanoseconds since the last update."""
        for state in labelled.keys() - self._weights.keys():
            self._weights[state] = Weights()
        for state, weights in self._weights.items():
            weights.update(labelled.get(state, {}), now_ns)

    @property
    def is_at_rest(self) -> bool:
        """No sleep is remembered."""
        return not any(weights.current() for weights in self._weights.values())

    def of(self, state: ThreadState) -> Mapping[tuple[Awaited, str], int]:
        """(kind, label) -> weight; empty where none is known."""
        return self._weights[state].current() if state in self._weights else {}
