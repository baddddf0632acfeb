"""Says to the kernel programs which processes have one owner, so that they share what that owner may take of each table.

In: processes and their owners, Shares. Out: what each owner was refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from exporter.kernel.share_rows import OF_GROUPS, PLACES, TABLES, ProcessShare, Shares
from exporter.workloads.owner import Owner, user_owner
from exporter.workloads.refusals import Refusals

KEYS_MAX: Final = 8
"""Cgroups or users of one owner whose new processes are known to be its own before their /proc is read."""

UNNAMED: Final = Owner("", "unnamed")
"""Processes that were refused something before their owner was known."""


@dataclass(slots=True)
class _Place:
    owner: Owner
    processes: set[int] = field(default_factory=set)
    keys: set[int] = field(default_factory=set)


class OwnerPlaces:
    """Places of owners in the kernel's table. An owner keeps its place until another one needs it.

    Without a free place a process stays where the kernel has put it, until one becomes free.
    """

    def __init__(self, shares: Shares, refused: Refusals) -> None:
        self._shares = shares
        self._refused = refused
        self._places: dict[int, _Place] = {}
        self._by_owner: dict[str, int] = {}
        self._by_process: dict[int, int] = {}
        self._waiting: dict[int, tuple[Owner, ProcessShare]] = {}
        self._counted: dict[int, tuple[int, ...]] = {}

    def add(self, process: int, owner: Owner, share: ProcessShare) -> None:
        """A process with this owner."""
        number = self._by_owner.get(owner.key)
        if number is None:
            number = self._free_place()
            if number is None:
                self._waiting[process] = owner, share
                return
            self._places[number] = _Place(owner)
            self._by_owner[owner.key] = number
        place = self._places[number]
        place.processes.add(process)
        self._by_process[process] = number
        self._shares.assign(process, number)
        self._expect(number, place, share)

    def _expect(self, number: int, place: _Place, share: ProcessShare) -> None:
        """Its next processes. Root outside containers has no key: containers of other owners may run as root as well."""
        of_group = share.group if share.group > 1 else 0  # 1: the root, on cgroup v1
        of_user = share.user_key if share.uid else 0
        key = of_group if place.owner.is_container else of_user
        if key and key not in place.keys and len(place.keys) < KEYS_MAX:
            place.keys.add(key)
            self._shares.expect(key, number)

    def remove(self, process: int) -> None:
        """The process has ended. What it holds is given back when its rows are deleted."""
        self._waiting.pop(process, None)
        number = self._by_process.pop(process, None)
        if number is None:
            return
        self._places[number].processes.discard(process)
        if not self._places[number].processes and self._waiting:
            self._add_waiting()

    def _add_waiting(self) -> None:
        """The owner that has waited longest gets the free place, with all of its processes."""
        first, _ = next(iter(self._waiting.values()))
        for process, (owner, share) in list(self._waiting.items()):
            if owner.key == first.key:
                del self._waiting[process]
                self.add(process, owner, share)

    def _free_place(self) -> int | None:
        number = next((one for one in PLACES if one not in self._places), None)
        if number is not None:
            return number
        number = next((one for one, place in self._places.items() if not place.processes), None)
        if number is not None:
            self.count_refusals()
            self._end(number)
        return number

    def _end(self, number: int) -> None:
        place = self._places.pop(number)
        del self._by_owner[place.owner.key]
        self._counted.pop(number, None)
        for key in place.keys:
            self._shares.expect(key, None)
        self._shares.clear_owner(number)

    def count_refusals(self) -> None:
        """Add what the kernel has refused since the last call; to control groups without a known owner as to their user."""
        for number, row in self._shares.refused().items():
            place = self._places.get(number)
            before = self._counted.get(number, (0,) * len(TABLES))
            for table, now, earlier in zip(TABLES, row.refused, before, strict=True):
                unknown = user_owner(row.user) if table in OF_GROUPS else UNNAMED
                self._refused.add(table, place.owner if place else unknown, now - earlier)
            self._counted[number] = row.refused
