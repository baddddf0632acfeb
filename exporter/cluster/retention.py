"""Removes the oldest sealed segments: those beyond the age and those beyond the size of the store.

A clock that jumps ahead makes everything look old. Nothing is removed for its age within an hour of a jump, so that a person or
the time service can set the clock right.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from exporter.clock import Moment
from exporter.cluster.folder import StoreFolder
from exporter.cluster.segment_name import HOUR_NS, SegmentName

log = logging.getLogger(__name__)

JUMP_NS: Final = HOUR_NS // 6
SETTLED_NS: Final = HOUR_NS
EXPIRED, TOO_LARGE = "age", "size"


class RetentionLimits(NamedTuple):
    age_ns: int
    total_bytes: int


class Retention:
    """now: of the start of the program, whose clock is believed."""

    def __init__(self, folder: StoreFolder, limits: RetentionLimits, now: Moment) -> None:
        self._folder = folder
        self._limits = limits
        self._difference_ns = now.unix_ns - now.monotonic_ns
        self._settled_at_ns = now.monotonic_ns

    def apply(self, now: Moment, open_bytes: int) -> list[str]:
        """Why each removed segment was removed. open_bytes: size of the open segment. Raises OSError."""
        self._watch_clock(now)
        sealed = [one for one in self._folder.segments() if not one.is_open]
        sizes = {one: self._folder.size_bytes(one) for one in sealed}
        total_bytes = sum(sizes.values()) + open_bytes
        reasons: list[str] = []
        for name in sealed:
            reason = self._reason(name, total_bytes, now)
            if reason is None:
                break
            self._folder.remove(name)
            total_bytes -= sizes[name]
            reasons.append(reason)
        return reasons

    def sealed(self) -> tuple[int, int]:
        """(number, size) of the sealed segments. Raises OSError."""
        sealed = [one for one in self._folder.segments() if not one.is_open]
        return len(sealed), sum(map(self._folder.size_bytes, sealed))

    def _reason(self, name: SegmentName, total_bytes: int, now: Moment) -> str | None:
        if total_bytes > self._limits.total_bytes:
            return TOO_LARGE
        is_expired = (name.hour + 1) * HOUR_NS + self._limits.age_ns <= now.unix_ns
        return EXPIRED if is_expired and now.monotonic_ns >= self._settled_at_ns else None

    def _watch_clock(self, now: Moment) -> None:
        difference_ns = now.unix_ns - now.monotonic_ns
        jump_ns = difference_ns - self._difference_ns
        if abs(jump_ns) > JUMP_NS:
            log.warning("the clock was set by %d s: no segment is removed for its age within an hour", jump_ns // 10**9)
            self._difference_ns = difference_ns
            self._settled_at_ns = now.monotonic_ns + SETTLED_NS
