"""Which process is looked at next: owners take turns, and each has its share of the time.

In: processes to look at, the time that each step of a look took. Out: the next look. Pure, the time is an argument.
An owner has a bucket of seconds, which fills slowly: a job that starts with a hundred processes is looked at at once, and a user
who remaps libraries all the time keeps the exporter busy for one part in fifty.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

BURST_SECONDS: Final = 1.0
REFILL: Final = 0.02
"""Seconds for looks per second."""
WAITING_MAX: Final = 4_096
"""Processes of one owner that wait. A later walk finds the others."""
OPTIONAL_WAITING_MAX: Final = 64
"""As many keep optional ones from waiting."""


@dataclass(slots=True)
class Look:
    """One process. steps: the look as far as it has come; None: not begun. is_optional: a later walk is soon enough."""

    tgid: int
    owner: str
    steps: Iterator[None] | None = None
    is_optional: bool = False


@dataclass(slots=True)
class _Owner:
    """seconds_left: may be below 0 after a long step. filled_at: when that was so."""

    filled_at: float
    seconds_left: float = BURST_SECONDS
    waiting: OrderedDict[int, Look] = field(default_factory=OrderedDict)


class LookQueue:
    """Not safe between threads: its caller has a lock."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, _Owner] = OrderedDict()

    def add(self, look: Look, now: float) -> bool:
        """Look at a process, once if it waits already: as it is now. Returns whether it waits: an owner may have too many."""
        owner = self._owners.setdefault(look.owner, _Owner(now))
        if look.tgid in owner.waiting:
            owner.waiting[look.tgid].steps = look.steps
            return True
        if look.is_optional and look.steps is None and len(owner.waiting) >= OPTIONAL_WAITING_MAX:
            return True  # nothing is left out
        if len(owner.waiting) >= WAITING_MAX:
            return False
        owner.waiting[look.tgid] = look
        return True

    def take(self, now: float) -> Look | None:
        """The next look of the next owner who has time left; None if no owner has."""
        for name, owner in list(self._owners.items()):
            _refill(owner, now)
            if not owner.waiting:
                if owner.seconds_left >= BURST_SECONDS:
                    del self._owners[name]
            elif owner.seconds_left > 0:
                self._owners.move_to_end(name)
                return owner.waiting.popitem(last=False)[1]
        return None

    def spent(self, owner_name: str, seconds: float, now: float) -> None:
        """A step of a look took so long."""
        owner = self._owners.setdefault(owner_name, _Owner(now))
        _refill(owner, now)
        owner.seconds_left -= seconds

    def has_time(self, owner_name: str, now: float) -> bool:
        """Whether an owner has time left."""
        owner = self._owners.get(owner_name)
        if owner is not None:
            _refill(owner, now)
        return owner is None or owner.seconds_left > 0

    def has_owner_without_time(self, now: float) -> bool:
        """Whether has_time() is False for any owner."""
        return any(not self.has_time(name, now) for name in self._owners)

    def seconds_until_next(self, now: float) -> float | None:
        """How long no owner whose processes wait has time left; None if nothing waits."""
        waits = [
            max(0.0, -owner.seconds_left / REFILL - (now - owner.filled_at))
            for owner in self._owners.values()
            if owner.waiting
        ]
        return min(waits, default=None)


def _refill(owner: _Owner, now: float) -> None:
    owner.seconds_left = min(BURST_SECONDS, owner.seconds_left + (now - owner.filled_at) * REFILL)
    owner.filled_at = now
