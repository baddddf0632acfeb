"""The ranks of several nodes, brought together to jobs by the hashes of their communicators.

In: reports by node. Out: jobs, each with the members that were seen, and the claims that contradict each other. A hash is no
proof: what two processes claim both, no one is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from exporter.fleet.rank_report import Place, RankReport

UNSEEN_MAX: Final = 64
"""Numbers of ranks that are named."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A process of a job. node: its name in the fleet."""

    node: str
    report: RankReport

    @property
    def is_gone(self) -> bool:
        return self.report.is_gone

    @property
    def own(self) -> Place:
        """Its place in its largest communicator."""
        return max(self.report.places, key=lambda one: (one.ranks, -one.communicator))

    @property
    def rank(self) -> str:
        """As the launcher has numbered it; its place in its largest communicator if that is not known."""
        return self.report.identity.rank or str(self.own.rank)

    def place_in(self, communicator: int) -> Place | None:
        return next((one for one in self.report.places if one.communicator == communicator), None)


class Claim(NamedTuple):
    """What several processes claim to be: one rank of a communicator."""

    communicator: int
    rank: int
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """communicator: the largest one, which names the job. ranks: of the job, as far as its communicators say.

    members: those whose place no one else claims. conflicts: claims that contradict each other; who makes them is no member.
    """

    communicator: int
    ranks: int
    members: tuple[Member, ...]
    conflicts: tuple[Claim, ...]

    @property
    def unseen(self) -> int:
        """Ranks of which no node has reported anything."""
        return max(self.ranks - len(self.members), 0)

    def unseen_ranks(self) -> tuple[int, ...]:
        """Their numbers in the largest communicator, the first UNSEEN_MAX."""
        seen = {place.rank for one in self.members if (place := one.place_in(self.communicator))}
        missing = (number for number in range(self.ranks) if number not in seen)
        return tuple(islice(missing, min(self.unseen, UNSEEN_MAX)))


def jobs_of(reports: Mapping[str, Sequence[RankReport]]) -> list[Job]:
    """Largest first. reports: by node. Jobs whose processes have all ended are left out."""
    members = [Member(node, one) for node, ranks in reports.items() for one in ranks if one.places]
    conflicts = _conflicts(members)
    contested = {id(one) for claim in conflicts for one in claim.members}
    groups = _Groups()
    for one in members:
        if id(one) not in contested:
            groups.join([place.communicator for place in one.report.places])
    for claim in conflicts:
        groups.join([claim.communicator])
    of_root: dict[int, _Parts] = {}
    for claim in conflicts:
        of_root.setdefault(groups.root_of(claim.communicator), _Parts([], [])).conflicts.append(claim)
    for one in members:
        if id(one) not in contested:
            of_root.setdefault(groups.root_of(one.own.communicator), _Parts([], [])).members.append(one)
    found = [_job(parts) for parts in of_root.values() if not parts.is_over]
    return sorted(found, key=lambda one: (-one.ranks, one.communicator))


class _Parts(NamedTuple):
    """Members and claims of a job."""

    members: list[Member]
    conflicts: list[Claim]

    @property
    def is_over(self) -> bool:
        """Whether all processes have ended. Those that make claims have not."""
        return not self.conflicts and all(one.is_gone for one in self.members)


class _Groups:
    """Communicators that have a process in common, directly or through others."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}

    def root_of(self, one: int) -> int:
        path = []
        while (above := self._above.setdefault(one, one)) != one:
            path.append(one)
            one = above
        self._above.update(dict.fromkeys(path, one))
        return one

    def join(self, communicators: Iterable[int]) -> None:
        first, *others = map(self.root_of, communicators)
        self._above.update(dict.fromkeys(others, first))
        self._above[first] = first


def _conflicts(members: Sequence[Member]) -> tuple[Claim, ...]:
    """Ranks that more than one living process claims, and communicators of which they claim different sizes."""
    claims: dict[tuple[int, int], list[Member]] = {}
    sizes: dict[int, dict[int, list[Member]]] = {}
    for one in members:
        if one.is_gone:
            continue
        for place in one.report.places:
            claims.setdefault((place.communicator, place.rank), []).append(one)
            sizes.setdefault(place.communicator, {}).setdefault(place.ranks, []).append(one)
    found = [Claim(*key, tuple(those)) for key, those in claims.items() if len(those) > 1]
    for communicator, of_size in sizes.items():
        if len(of_size) > 1:
            those = min(of_size.values(), key=len)
            rank = next(place.rank for place in those[0].report.places if place.communicator == communicator)
            found.append(Claim(communicator, rank, tuple(those)))
    return tuple(found)


def _job(parts: _Parts) -> Job:
    places = [place for one in parts.members for place in one.report.places]
    places = places or [place for claim in parts.conflicts for place in claim.members[0].report.places]
    largest = max(places, key=lambda one: (one.ranks, one.communicator))
    ordered = sorted(parts.members, key=lambda one: (one.own.rank, one.node, one.report.tgid))
    return Job(largest.communicator, max(largest.ranks, len(ordered)), tuple(ordered), tuple(parts.conflicts))
