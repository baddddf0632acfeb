"""How long a file may take to be read: in proportion to its size, whatever it holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_SECONDS: Final = 1.5
_SECONDS_PER_MIB: Final = 0.5
_SECONDS_MAX: Final = 120.0


class Unfinished(Exception):
    """Reading took longer than a file of its size should take."""


@dataclass(frozen=True, slots=True)
class ReadBudget:
    """Time for all that is read of one file.

    clock: seconds of a CPU that this thread has used, so that no file is refused because the machine, or another thread, is busy.
    """

    until: float
    seconds: float
    clock: Callable[[], float] = time.thread_time

    @classmethod
    def for_size(
        cls, size_bytes: int, clock: Callable[[], float] = time.thread_time, *, effort: float = 1.0
    ) -> ReadBudget:
        """More for a larger file. effort: of all that is done with what is read, compared with reading it."""
        seconds = effort * min(_SECONDS + _SECONDS_PER_MIB * size_bytes / (1 << 20), _SECONDS_MAX)
        return cls(clock() + seconds, seconds, clock)

    @property
    def is_spent(self) -> bool:
        return self.clock() > self.until

    def check(self) -> None:
        """Raises Unfinished."""
        if self.is_spent:
            raise Unfinished(f"it took more than {self.seconds:.1f} s of a CPU")
