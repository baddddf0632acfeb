"""Which workloads have series of their own: a limited number of identities, shared by owner.

In: an identity and its owner. Out: the identity to export, and which identities have to go for it. Pure.
An owner may have any number while there is room. When there is none, a running workload takes the place of one that has ended:
of its own owner, of an owner that has more, or of any after GRACE_TICKS. Else an owner that has fewer than another by two or more
takes the place of that owner's identity that was admitted last. An identity belongs to one owner: while it has series, no other
owner adds to them.
Workloads that ran briefly keep their series only as long as an owner has few of them: a program may start thousands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final

from exporter.model import Identity
from exporter.workloads import refusals
from exporter.workloads.owner import Owner
from exporter.workloads.refusals import Refusals

BRIEF_MAX: Final = 32
"""Ended workloads of one owner that ran briefly and have series of their own."""


GRACE_TICKS: Final = 240
"""So long the last totals of an ended workload are exported, whatever others start: one minute."""


class Admission:
    """most: identities at a time. changes: grows with every change that may have made room.

    last_refusal: why admit() returned None last, as in refusals.
    """

    def __init__(self, most: int, refused: Refusals) -> None:
        self.changes = 0
        self.last_refusal = ""
        self._ticks = 0
        self._without_room: set[str] = set()  # owners that were refused since the last change or tick
        self._used_at: dict[Identity, int] = {}  # when it was admitted, or when a process with it ended last
        self._most = most
        self._refused = refused
        self._owners: dict[Identity, Owner] = {}  # in the order of admission
        self._evicted: list[Identity] = []
        self._lasting: set[Identity] = set()  # a process with this identity did not run briefly
        self._brief: dict[Identity, None] = {}  # ended, in this order
        self._surplus: list[Identity] = []

    def tick(self) -> None:
        """Call it once a tick."""
        self._ticks += 1
        self._without_room.clear()

    def admit(
        self,
        wanted: Identity,
        owner: Owner,
        living: Callable[[], Collection[Identity]],
        *,
        is_running: bool = True,
        is_retry: bool = False,
    ) -> Identity | None:
        """What a process of this owner is exported as; None: it has no series of its own.

        living: identities that processes have now. is_running: it has not ended. is_retry: its refusal has been counted.
        """
        identity = wanted
        if self._is_of_another(identity, owner) and not identity.container:
            identity = replace(identity, container=owner.name)
        if identity is not wanted or self._is_of_another(identity, owner):
            self._refuse(refusals.CLAIMED, owner, is_retry=is_retry)
        if self._is_of_another(identity, owner):
            return None
        if identity in self._owners:
            return identity
        if len(self._owners) >= self._most and not self._make_room(owner, living, is_running=is_running):
            if is_running:
                self._without_room.add(owner.key)
            self._refuse(refusals.WORKLOADS, owner, is_retry=is_retry)
            return None
        self._owners[identity] = owner
        self._used_at[identity] = self._ticks
        return identity

    def _refuse(self, resource: str, owner: Owner, *, is_retry: bool) -> None:
        self.last_refusal = resource
        if not is_retry:
            self._refused.add(resource, owner)

    def _is_of_another(self, identity: Identity, owner: Owner) -> bool:
        holder = self._owners.get(identity)
        return holder is not None and holder.key != owner.key

    def owner_of(self, identity: Identity) -> Owner | None:
        """The owner of an admitted identity."""
        return self._owners.get(identity)

    def _make_room(self, owner: Owner, living: Callable[[], Collection[Identity]], *, is_running: bool) -> bool:
        if owner.key in self._without_room:
            return False
        held = Counter(one.key for one in self._owners.values())
        evicted = self._ended_for(owner, held, living(), is_running=is_running)
        if evicted is None and is_running:
            evicted = self._running_for(owner, held)
        if evicted is None:
            return False
        self._brief.pop(evicted, None)
        self._lasting.discard(evicted)
        self._used_at.pop(evicted, None)
        self._refused.add(refusals.WORKLOADS, self._owners.pop(evicted))
        self._evicted.append(evicted)
        return True

    def _ended_for(
        self, owner: Owner, held: Counter[str], alive: Collection[Identity], *, is_running: bool
    ) -> Identity | None:
        """The identity that ended first, among those that make room for this owner: first its own."""
        ended = sorted((one for one in self._owners if one not in alive), key=lambda one: self._used_at[one])
        own = [one for one in ended if self._owners[one].key == owner.key]
        if own and is_running:
            return own[0]
        for one in ended:
            holder = self._owners[one].key
            is_over = is_running and self._ticks - self._used_at[one] >= GRACE_TICKS
            if holder != owner.key and (is_over or held[holder] > held[owner.key]):
                return one
        return None

    def _running_for(self, owner: Owner, held: Counter[str]) -> Identity | None:
        """The last one of the owner that has most, if that leaves it no fewer than `owner` then has."""
        largest, most = max(held.items(), key=lambda of: of[1])
        if most < held[owner.key] + 2:
            return None
        return [identity for identity, holder in self._owners.items() if holder.key == largest][-1]

    def take_evicted(self) -> list[Identity]:
        """Identities that have lost their place since the last call."""
        evicted, self._evicted = self._evicted, []
        return evicted

    def end(self, identity: Identity, living: Callable[[], Collection[Identity]], *, is_brief: bool) -> None:
        """A process with this identity has ended. is_brief: soon after it began."""
        owner = self._owners.get(identity)
        if owner is None:
            return
        self.changes += 1
        self._without_room.clear()
        self._used_at[identity] = self._ticks
        if not is_brief:
            self._lasting.add(identity)
        self._brief.pop(identity, None)
        if identity in self._lasting:
            return
        self._brief[identity] = None
        of_owner = [one for one in self._brief if self._owners[one].key == owner.key]
        if len(of_owner) <= BRIEF_MAX:
            return
        alive = living()
        for one in of_owner[:-BRIEF_MAX]:
            del self._brief[one]
            if one not in alive:
                self._refused.add(refusals.BRIEF, self._owners.pop(one))
                self._used_at.pop(one, None)
                self._surplus.append(one)

    def take_surplus(self) -> list[Identity]:
        """Workloads that ran briefly, whose totals are no longer kept apart, since the last call."""
        surplus, self._surplus = self._surplus, []
        return surplus

    def keep(self, identities: Iterable[Identity]) -> None:
        """All others are free again."""
        kept = set(identities)
        self.changes += not self._owners.keys() <= kept
        self._owners = {identity: owner for identity, owner in self._owners.items() if identity in kept}
        self._lasting &= self._owners.keys()
        self._used_at = {identity: at for identity, at in self._used_at.items() if identity in self._owners}
        self._brief = {identity: None for identity in self._brief if identity in self._owners}
        self._without_room.clear()
