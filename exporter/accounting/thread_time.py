"""Sums the time of a process's threads by call, or gap between calls, and by state.

In: Accounts. Out: nanoseconds since the process was first seen: ended and open calls, gaps, worker threads.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cache

from exporter.accounting.culprits import STATE_LABEL
from exporter.kernel.abi import OPERATION_NONE, IntervalKind, Role, ThreadState, Victim
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.readings import Accounts
from exporter.kernel.thread_rows import IntervalRow, States, ThreadRow, signed

Times = dict[tuple[str, str], int]
"""Nanoseconds by (operation, state), as labels."""

INTERVAL_LABEL = {kind: kind.name.lower() for kind in IntervalKind}

_SPINS_FOR_GPU = (ThreadState.ON_CPU, ThreadState.POLL, ThreadState.SLEEP)
_SLEEPS_FOR_GPU = (ThreadState.POLL, ThreadState.SLEEP)
_WAITS_OF_ROLE = {
    Role.SYNC: _SPINS_FOR_GPU,
    Role.EVENT_SYNC: _SPINS_FOR_GPU,
    Role.COPY: _SLEEPS_FOR_GPU,
    Role.QUERY: _SLEEPS_FOR_GPU,
}
_AS_THEY_ARE = {state: STATE_LABEL[state] for state in ThreadState}
_LABELS_OF_ROLE = {
    role: _AS_THEY_ARE | dict.fromkeys(_WAITS_OF_ROLE.get(role, ()), STATE_LABEL[ThreadState.GPU_WAIT]) for role in Role
}
"""In a synchronising call, spinning, polling and timed sleeps are waits for the GPU. A copy spends CPU time as well, and so does
a thread between two queries."""


def times_by_process(accounts: Accounts, of: Container[int] | None = None) -> dict[int, Times]:
    """Process -> its times, without zeros. A corrected one may be below zero for a moment. of: only these; None for all."""
    times: dict[int, Times] = {}
    for key, row in accounts.operations.items():
        if of is None or key.process in of:
            _add(times.setdefault(key.process, {}), _keys_of_call(key.operation), row.states_ns)
    for interval, ended in accounts.intervals.items():
        if of is None or interval.process in of:
            _add(times.setdefault(interval.process, {}), _keys_of_interval(interval.kind), ended.states_ns)
    for thread in accounts.threads:
        if of is None or thread.process in of:
            _add_thread(times.setdefault(thread.process, {}), thread)
    return times


def switches_by_process(accounts: Accounts) -> dict[int, tuple[int, int]]:
    """Process -> voluntary and involuntary context switches of its threads that made calls, ended threads included."""
    switches: dict[int, tuple[int, int]] = {}
    for interval, ended in accounts.intervals.items():
        if interval.kind is not IntervalKind.WORKER:
            _add_switches(switches, interval.process, ended)
    for thread in accounts.threads:
        if thread.victim is not Victim.WORKER:
            _add_switches(switches, thread.process, thread)
    return switches


def _add_switches(switches: dict[int, tuple[int, int]], process: int, row: IntervalRow | ThreadRow) -> None:
    voluntary, involuntary = switches.get(process, (0, 0))
    switches[process] = (voluntary + row.voluntary, involuntary + row.involuntary)


def _add_thread(times: Times, thread: ThreadRow) -> None:
    if thread.victim is Victim.WORKER:
        _add(times, _keys_of_interval(IntervalKind.WORKER), thread.booked_ns)
        return
    gap = IntervalKind.GAP if thread.victim is Victim.STEP else IntervalKind.OTHER_GAP
    _add(times, _keys_of_interval(gap), thread.gaps_ns)
    _add(times, _keys_of_interval(IntervalKind.IDLE), thread.idle_ns)
    if thread.operation != OPERATION_NONE:
        _add(times, _keys_of_call(thread.operation), thread.open_ns)


# The same key objects for every process: there may be fifty thousand.
@cache
def _keys_of_call(number: int) -> tuple[tuple[ThreadState, tuple[str, str]], ...]:
    operation = OPERATIONS[number]
    role = Role.COPY if operation.is_copy else operation.role
    return tuple((state, (operation.name, label)) for state, label in _LABELS_OF_ROLE[role].items())


@cache
def _keys_of_interval(kind: IntervalKind) -> tuple[tuple[ThreadState, tuple[str, str]], ...]:
    return tuple((state, (INTERVAL_LABEL[kind], label)) for state, label in _AS_THEY_ARE.items())


def _add(times: Times, keys: Iterable[tuple[ThreadState, tuple[str, str]]], states_ns: States) -> None:
    for state, key in keys:
        if states_ns[state]:
            times[key] = times.get(key, 0) + signed(states_ns[state])


class ThreadTime:
    """Reported time of one process; no value ever goes back.

    The tables are read in sequence while threads run: a call that ends in between is missing for a moment, and the gaps of a
    thread move from `other_gap` to `gap` at its first launch. A value that would go back stays until the sum has caught up, so
    that a counter never seems to have been reset.
    """

    def __init__(self) -> None:
        self._reported: Times = {}

    def update(self, times: Times) -> None:
        """Take the times of the latest reading."""
        for key, value in times.items():
            if value > self._reported.get(key, 0):
                self._reported[key] = value

    def reported(self) -> Mapping[tuple[str, str], int]:
        """Nanoseconds by (operation, state)."""
        return self._reported
