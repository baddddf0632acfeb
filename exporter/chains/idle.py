"""Takes the time out in which a job has nothing to do: a server without requests, a notebook whose user thinks.

In: the state of a process at every tick. Out: the same without idle time, once the job is known to have it as a habit.

Such a job cannot be compared by its pace, because that depends on who uses it. Two habits are known: pauses, steps that take many
times as long as most; and own waits in most seconds, for the next request. A serving engine has the second one from the start.
Only what the accounting shows as a wait for input is idle time, so a job that is stopped, or waits for a CPU, is late as ever.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.accounting.cadence import PAUSE_STEPS
from exporter.accounting.culprits import NO_CULPRIT
from exporter.causes import Cause
from exporter.chains.span import ProcessState, Span
from exporter.chains.thresholds import (
    IDLE_PAUSES,
    IDLE_SHARE,
    IDLE_WITHIN_NS,
    MAIN_SHARE,
    WINDOW_NS,
    WINDOWS_NEEDED,
)

_OF_PAUSES = frozenset((Cause.OWN_WAIT, Cause.DATALOADER, Cause.NETWORK, Cause.LOCK))
_OF_INPUT = frozenset((Cause.OWN_WAIT, Cause.DATALOADER))
"""One or the other, as far as it is seen who has written to a pipe."""

_FOR_REQUESTS = (Cause.OWN_WAIT, NO_CULPRIT)


class _Habit(enum.Enum):
    PAUSES = 1
    OWN_WAITS = 2


class _Second(NamedTuple):
    """waits_ns: waits for input. pause_ns: in pauses."""

    ended_ns: int
    wall_ns: int
    waits_ns: Mapping[tuple[Cause, str], int]
    pauses: int
    pause_ns: int


class IdleTime:
    """Idle time of one process."""

    def __init__(self) -> None:
        self._habit: _Habit | None = None
        self._causes: frozenset[Cause] = frozenset()  # of its pauses
        self._seconds: list[_Second] = []
        self._opened: ProcessState | None = None  # when the current second began
        self._last: ProcessState | None = None
        self._removed: dict[tuple[Cause, str], int] = {}
        self._idle_ns = 0
        self._paused_ns = 0  # in pauses: idle time, unless no wait is found for it
        self._lost_pauses_ns = 0  # that were no idle time
        self._ended_ns = 0  # the part of that in pauses that had ended at the last tick
        self._waited: dict[tuple[Cause, str], int] = {}  # in the last tick, and in no pause

    def add(self, seen: ProcessState, *, may_begin: bool) -> tuple[ProcessState, bool]:
        """The state without idle time; whether the habit was found just now, so that earlier states cannot be compared with it.

        may_begin: what the job is like is not known yet.
        """
        before, self._last = self._last, seen
        if self._habit is None:
            is_new = self._learn(seen, may_begin=may_begin)
            if is_new or not seen.is_server:
                return seen, is_new
        progress = seen.progress
        if self._habit is _Habit.PAUSES:
            self._take_pauses(before, seen)
            steps_ns = progress.steps_ns - (progress.pause_ns - self._lost_pauses_ns)
        else:
            self._take_own_waits(before, seen)
            steps_ns = progress.steps_ns - self._idle_ns
        lost_ns = {key: ns - self._removed.get(key, 0) for key, ns in progress.lost_ns.items()}
        paced = progress._replace(lost_ns=lost_ns, steps_ns=steps_ns)
        return seen._replace(progress=paced, idle_ns=self._idle_ns + self._paused_ns), False

    def _take_own_waits(self, before: ProcessState | None, seen: ProcessState) -> None:
        self._take(_FOR_REQUESTS, _grown(before, seen).get(_FOR_REQUESTS, 0))

    def _take_pauses(self, before: ProcessState | None, seen: ProcessState) -> None:
        """Pauses, as far as they were waits. Either may be read a tick before the other."""
        grown = _grown(before, seen)
        waited = {key: ns for key, ns in grown.items() if key[0] in self._causes}
        if before is not None:
            undecided_ns = seen.progress.undecided_ns - before.progress.undecided_ns
            lost_ns = sum(grown.values()) - sum(waited.values()) + undecided_ns
            self._paused_ns = max(self._paused_ns + _pauses_ns(seen) - _pauses_ns(before), 0)
            self._give_up(max(lost_ns, 0))
        idle_before_ns = self._idle_ns
        for key in waited.keys() | self._waited.keys():
            known_ns = self._waited.get(key, 0) + waited.get(key, 0)
            taken_ns = min(known_ns, self._paused_ns)
            self._paused_ns -= taken_ns
            self._take(key, taken_ns)
            self._waited[key] = min(known_ns - taken_ns, waited.get(key, 0))
        self._give_up(max(self._ended_ns - (self._idle_ns - idle_before_ns), 0))
        self._ended_ns = max(self._paused_ns - _open_pause_ns(seen), 0)

    def _give_up(self, lost_ns: int) -> None:
        """So much of the pauses was no wait for input."""
        lost_ns = min(lost_ns, self._paused_ns)
        self._paused_ns -= lost_ns
        self._lost_pauses_ns += lost_ns

    def _take(self, key: tuple[Cause, str], taken_ns: int) -> None:
        if taken_ns:
            self._removed[key] = self._removed.get(key, 0) + taken_ns
            self._idle_ns += taken_ns

    def _learn(self, seen: ProcessState, *, may_begin: bool) -> bool:
        if not (may_begin and seen.progress.step_began_ns):
            self._seconds.clear()
            self._opened = None
            return False
        if self._opened is None:
            self._opened = seen
            return False
        if seen.now_ns - self._opened.now_ns < WINDOW_NS:
            return False
        self._seconds.append(_second(self._opened, seen))
        self._opened = seen
        while seen.now_ns - self._seconds[0].ended_ns > IDLE_WITHIN_NS:
            del self._seconds[0]
        self._habit = _habit(self._seconds)
        if self._habit is None:
            return False
        self._causes = _causes(self._seconds)
        self._removed, self._idle_ns = {}, 0
        self._lost_pauses_ns = seen.progress.pause_ns
        return True


def _open_pause_ns(seen: ProcessState) -> int:
    """Time of the open step, if it contains a pause already."""
    progress = seen.progress
    age_ns = seen.now_ns - progress.step_began_ns if progress.step_began_ns else 0
    return age_ns - progress.typical_step_ns if age_ns > PAUSE_STEPS * progress.typical_step_ns > 0 else 0


def _pauses_ns(seen: ProcessState) -> int:
    return seen.progress.pause_ns + _open_pause_ns(seen)


def _grown(before: ProcessState | None, seen: ProcessState) -> dict[tuple[Cause, str], int]:
    return Span(before, seen).lost_ns() if before else {}


def _second(then: ProcessState, now: ProcessState) -> _Second:
    before, after = then.progress, now.progress
    return _Second(
        now.now_ns,
        now.now_ns - then.now_ns,
        {key: ns for key, ns in _grown(then, now).items() if key[0] in _OF_PAUSES},
        after.pauses - before.pauses,
        after.pause_ns - before.pause_ns,
    )


def _habit(seconds: Iterable[_Second]) -> _Habit | None:
    found = list(seconds)
    if len(found) < WINDOWS_NEEDED:
        return None
    wall_ns, paused_ns = sum(one.wall_ns for one in found), sum(one.pause_ns for one in found)
    if sum(one.pauses for one in found) >= IDLE_PAUSES and paused_ns >= IDLE_SHARE * wall_ns:
        waited_ns = sum(sum(one.waits_ns.values()) for one in found)
        return _Habit.PAUSES if waited_ns >= MAIN_SHARE * paused_ns else None
    waiting = [one for one in found if one.waits_ns.get(_FOR_REQUESTS, 0) >= IDLE_SHARE * one.wall_ns]
    return _Habit.OWN_WAITS if 2 * len(waiting) > len(found) else None


def _causes(seconds: Iterable[_Second]) -> frozenset[Cause]:
    """What the job waits for in its idle time: a wait with another cause is new."""
    found = list(seconds)
    wall_ns = sum(one.wall_ns for one in found)
    waited_ns = {
        cause: sum(ns for one in found for key, ns in one.waits_ns.items() if key[0] is cause) for cause in _OF_PAUSES
    }
    found_causes = frozenset(cause for cause, ns in waited_ns.items() if ns >= IDLE_SHARE / 2 * wall_ns)
    return found_causes | _OF_INPUT if found_causes & _OF_INPUT else found_causes
