"""Which rank of a job has not entered a collective that others wait in: by how many each has entered, never by a clock.

In: a Job. Out: a JobStandstill, or None while it goes on. A rank that has entered more collectives of a communicator than another
one waits for that one, and is late elsewhere only because of it: the rank that all wait for in the end waits for no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from exporter.causes import Cause
from exporter.fleet.jobs import Job, Member

STILL_SECONDS: Final = 30.0
STILL_STEPS: Final = 4
"""Every rank enters an operation in each of its steps."""
_FAILED: Final = (Cause.NCCL_HANG, Cause.STALLED)


@dataclass(frozen=True, slots=True)
class JobStandstill:
    """late: members that have not entered, and wait for no one. since_seconds: how long at least all have stood still.

    candidates: where it is ambiguous which one is late: members that wait for each other. is_complete: every rank has entered.
    communicator, collectives: which one the late ranks have not entered, and how many they have.
    """

    late: tuple[Member, ...]
    candidates: tuple[Member, ...]
    since_seconds: float
    is_complete: bool
    communicator: int = 0
    collectives: int = 0


def standstill_of(job: Job, step_seconds: float) -> JobStandstill | None:
    """step_seconds: what a step takes while the job goes on, 0 if it is not known."""
    least_seconds = max(STILL_SECONDS, STILL_STEPS * step_seconds)
    living = [one for one in job.members if not one.is_gone]
    if not living or any(_still_seconds(one) < least_seconds for one in living):
        return None
    since_seconds = min(map(_still_seconds, living))
    waits = _waits(job.members)
    if not waits.waiting:
        is_failed = any(
            chain.cause in _FAILED and chain.state == "open" for one in living for chain in one.report.chains
        )
        return JobStandstill((), (), since_seconds, is_complete=not job.unseen) if is_failed else None
    awaited = [one for one in job.members if id(one) in waits.awaited]
    late = tuple(one for one in awaited if id(one) not in waits.waiting)
    if not late:
        return JobStandstill((), tuple(awaited), since_seconds, is_complete=False)
    communicator, collectives = _missed(job.members, late[0])
    return JobStandstill(late, (), since_seconds, False, communicator, collectives)


class _Waits(NamedTuple):
    """Ids of members. waiting: have entered more than another one. awaited: have entered fewest of a communicator."""

    waiting: set[int]
    awaited: set[int]


def _still_seconds(member: Member) -> float:
    """Since it has last entered any operation."""
    return min(place.still_seconds for place in member.report.places)


def _waits(members: Sequence[Member]) -> _Waits:
    of_communicator: dict[int, list[tuple[int, Member]]] = {}
    for one in members:
        for place in one.report.places:
            of_communicator.setdefault(place.communicator, []).append((place.collectives, one))
    found = _Waits(set(), set())
    for places in of_communicator.values():
        least = min(count for count, _ in places)
        waiting = {id(one) for count, one in places if count > least and not one.is_gone}
        if waiting:
            found.waiting.update(waiting)
            found.awaited.update(id(one) for count, one in places if count == least)
    return found


def _missed(members: Sequence[Member], late: Member) -> tuple[int, int]:
    """The communicator in which a late member is behind, and how many collectives it has entered there."""
    for place in late.report.places:
        others = (one.place_in(place.communicator) for one in members)
        if any(other is not None and other.collectives > place.collectives for other in others):
            return place.communicator, place.collectives
    return 0, 0
