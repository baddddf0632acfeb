"""Batches that make a step together: a job that runs ahead enqueues several at once, and then waits for all of them.

In: the time from each batch to the next. Out: how many make a step. Such batches come in bursts: one of so many takes nearly all
of the time, which says nothing about its length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise, repeat
from statistics import median
from typing import Final

MAX_BATCHES: Final = 32
REPEATS: Final = 3
LONG: Final = 2.0  # times the mean
LONG_SHARE: Final = 0.5  # of the time
EVEN_NS: Final = 100_000_000  # of batches without a long one: they come in no bursts
KNOWN_MAX: Final = (REPEATS + 1) * MAX_BATCHES


class Bursts:
    """size: batches of a step, 1 where they do not come in bursts; 0 until that is known, and then the same for good: pauses that
    begin later are no bursts.
    """

    def __init__(self) -> None:
        self._lengths_ns: deque[int] = deque(maxlen=KNOWN_MAX)
        self.size = 0

    def split(self, batches: int, passed_ns: int) -> list[int]:
        """Lengths of batches that went unseen: as long as each other, or the wait before a burst and then its batches."""
        usual_ns = round(median(self._lengths_ns)) if self._lengths_ns else passed_ns
        if batches == 1 or passed_ns <= LONG * batches * usual_ns:
            return [passed_ns // batches] * batches
        return [passed_ns - (batches - 1) * usual_ns, *repeat(usual_ns, batches - 1)]

    def add(self, lengths_ns: Iterable[int]) -> None:
        """Batches, in their order."""
        self._lengths_ns.extend(lengths_ns)
        if not self.size:
            self.size = _size(list(self._lengths_ns))


def _size(lengths_ns: list[int]) -> int:
    """0 while it is not known."""
    sum_ns = sum(lengths_ns)
    is_long = [length_ns * len(lengths_ns) > LONG * sum_ns for length_ns in lengths_ns]
    long_ns = sum(length_ns for length_ns, one in zip(lengths_ns, is_long, strict=True) if one)
    if long_ns < LONG_SHARE * sum_ns:
        return 1 if sum_ns >= EVEN_NS else 0
    places = [number for number, one in enumerate(is_long) if one][-REPEATS - 1 :]
    distances = {later - before for before, later in pairwise(places)}
    if len(places) > REPEATS and len(distances) == 1:
        return distances.pop()
    return 1 if len(lengths_ns) == KNOWN_MAX else 0
