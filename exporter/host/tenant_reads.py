"""What the exporter's tick reads of new processes: environments, command lines, mapped libraries.

In: tgids. Out: what was read; empty for a process that does not answer, and after three of them for all of their owner. So one
owner can delay three ticks in ten minutes, each by the reader's patience. Copies of environments, which take longer to find, are
looked for while the owner has used little time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TypeVar

from exporter.errors import NoAnswer
from exporter.host.programs import Program
from exporter.host.reader import TenantReader
from exporter.host.slow_processes import SlowProcesses

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.25
ENVIRONMENT_SECONDS = 0.5
"""What reading environments of one owner may take at a time, before no copies are looked for."""
ENVIRONMENT_SHARE = 0.05
"""Part of the time that an owner may use so in the long run."""
OWNERS_FORGOTTEN_AT_ONCE = 8
_Read = TypeVar("_Read")


class TenantReads:
    """owner_of: the owner of a process. count_unanswered: called for each read that was given up. For one thread at a time."""

    def __init__(
        self,
        reader: TenantReader,
        owner_of: Callable[[int], str],
        count_unanswered: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._owner_of = owner_of
        self._slow = SlowProcesses()
        self._used: dict[str, tuple[float, float]] = {}  # by owner: seconds of reading, and when; the latest last
        self._clock = clock
        self._count_unanswered = count_unanswered

    def environment(self, tgid: int, names: Collection[str], expected: Collection[str] = ()) -> dict[str, str]:
        """The variables among `names`; expected: see environments.environment(). Raises ProcessGone, NotPossibleHere."""
        owner, began_at = self._owner_of(tgid), self._clock()
        used = self._used_seconds(owner, began_at)
        nothing: dict[str, str] = {}
        try:
            return self._read(
                tgid,
                lambda: self._reader.environment(tgid, names, with_copy=used < ENVIRONMENT_SECONDS, expected=expected),
                nothing,
            )
        finally:
            now = self._clock()
            self._used[owner] = used + now - began_at, now

    def _used_seconds(self, owner: str, now: float) -> float:
        used, at = self._used.pop(owner, (0.0, now))
        oldest = list(islice(self._used.items(), OWNERS_FORGOTTEN_AT_ONCE))
        for other, (before, then) in oldest:
            if before <= (now - then) * ENVIRONMENT_SHARE:
                del self._used[other]
        return max(used - (now - at) * ENVIRONMENT_SHARE, 0.0)

    def programs(self, tgid: int) -> Sequence[Program]:
        """The program of a process, and those of its ancestors."""
        return self._read(tgid, lambda: self._reader.programs(tgid), ())

    def mapped_libraries(self, tgid: int) -> frozenset[str]:
        """Paths of the shared libraries that it has mapped."""
        return self._read(tgid, lambda: self._reader.mapped_libraries(tgid), frozenset())

    def close(self) -> None:
        self._reader.close()

    def _read(self, tgid: int, read: Callable[[], _Read], nothing: _Read) -> _Read:
        if self._slow.has_any and self._slow.is_slow(self._owner_of(tgid), tgid, self._clock()):
            return nothing
        try:
            return read()
        except NoAnswer as error:
            self._count_unanswered()
            owner = self._owner_of(tgid)
            self._slow.add(owner, tgid, self._clock())
            log.warning(
                "process %d of %s does not answer, its rank and engine may stay unknown: %s", tgid, owner, error
            )
            return nothing
