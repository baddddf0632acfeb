"""Processes that did not answer a look at once, and how much of that each owner may cost others.

In: looks that were not answered. Out: which later looks are left to the patient reader, and which are not begun at all.
"""

from __future__ import annotations

import subprocess
from typing import Final

SLOW_SECONDS: Final = 600.0
"""A process that did not answer at once is left to the patient reader for so long."""
PROCESSES_OF_OWNER: Final = 3
"""With so many of them, all processes of an owner are slow. With so many readers that hang in its files, no look is begun: it
could leave another one behind."""


class SlowProcesses:
    """Its caller has a lock."""

    def __init__(self) -> None:
        self._slow_until: dict[str, dict[int, float]] = {}
        self._hanging: dict[str, dict[int, subprocess.Popen[bytes]]] = {}

    @property
    def has_any(self) -> bool:
        """Whether a process did not answer lately."""
        return bool(self._slow_until)

    def add(self, owner: str, tgid: int, now: float) -> None:
        """It did not answer at once."""
        self._forget_answering(now)
        self._slow_until.setdefault(owner, {})[tgid] = now + SLOW_SECONDS

    def add_hanging(self, owner: str, tgid: int, reader: subprocess.Popen[bytes] | None) -> None:
        """It did not answer the patient reader either."""
        self._forget_ended()
        if reader is not None:
            self._hanging.setdefault(owner, {})[tgid] = reader

    def is_slow(self, owner: str, tgid: int, now: float) -> bool:
        """Whether the look is left to the patient reader."""
        if owner not in self._slow_until:
            return False
        self._forget_answering(now)
        slow = self._slow_until.get(owner, {})
        return tgid in slow or len(slow) >= PROCESSES_OF_OWNER

    def is_hanging(self, owner: str, tgid: int) -> bool:
        """Whether no look is begun, since readers still hang."""
        if owner not in self._hanging:
            return False
        self._forget_ended()
        hanging = self._hanging.get(owner, {})
        return tgid in hanging or len(hanging) >= PROCESSES_OF_OWNER

    def _forget_answering(self, now: float) -> None:
        """Looks at all owners: no later look comes for one that has gone, as a container does."""
        self._slow_until = {
            owner: slow
            for owner, of_owner in self._slow_until.items()
            if (slow := {tgid: until for tgid, until in of_owner.items() if until > now})
        }

    def _forget_ended(self) -> None:
        self._hanging = {
            owner: hanging
            for owner, of_owner in self._hanging.items()
            if (hanging := {tgid: reader for tgid, reader in of_owner.items() if reader.poll() is None})
        }
