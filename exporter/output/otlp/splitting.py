"""How many items a receiver takes in one request: halves of what it refused as too large are sent, down to single items.

In: the items of a request, and a function that sends some of them. Out: a result for each part, in their order. Receivers do not
say where their limits are, so the size that was accepted is used for the rest of the push, and for the pushes of the next hour. A
receiver that refuses every size costs MAX_REFUSALS requests, and gets unsplit ones for an hour.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from exporter.output.otlp.response import PushOutcome, PushResult

MAX_REFUSALS = 32
"""Requests of one push that are refused as too large before the rest is sent unsplit."""

REMEMBERED_SECONDS = 3600.0
"""Then the limit is tried out again: it may have been raised."""

T = TypeVar("T")


class Splitter:
    """The request sizes of one signal of one receiver. max_items: of a request while no limit is known."""

    def __init__(self, max_items: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_items = max_items
        self._clock = clock
        self._limit = max_items
        self._forget_at = 0.0
        self._no_splits_before = 0.0
        self._refusals = 0
        self._smallest_refused = 0  # items of a request of this push; 0: none was refused
        self._largest_half = 0  # items of the largest part of a split request that was accepted

    def begin_push(self) -> int:
        """Returns how many items a request of this push may have."""
        now = self._clock()
        if self._largest_half:
            self._limit, self._forget_at = self._largest_half, now + REMEMBERED_SECONDS
        elif self._refusals > MAX_REFUSALS:
            self._no_splits_before = now + REMEMBERED_SECONDS
        elif now >= self._forget_at:
            self._limit = self._max_items
        self._refusals = self._largest_half = self._smallest_refused = 0
        return self._limit

    def results(
        self, items: Sequence[T], send: Callable[[Sequence[T]], PushResult]
    ) -> Iterator[tuple[Sequence[T], PushResult]]:
        """Each part that is not split further, with its result; a single item that is too large counts as rejected there."""
        waiting = [items]
        while waiting:
            part = waiting.pop()
            middle = len(part) // 2
            if self._is_known_too_large(len(part)):
                waiting += [part[middle:], part[:middle]]
                continue
            result = send(part)
            if result.is_too_large and len(part) > 1 and self._may_split():
                self._smallest_refused = min(self._smallest_refused or len(part), len(part))
                waiting += [part[middle:], part[:middle]]
                continue
            if result.is_too_large and len(part) == 1:
                outcome = PushOutcome.PARTIAL if len(items) > 1 else PushOutcome.REJECTED
                result = PushResult(outcome, f"too large, dropped: {result.detail}", 1)
            elif result.is_accepted and len(part) < len(items):
                self._largest_half = max(self._largest_half, len(part))
            yield part, result

    def _is_known_too_large(self, items: int) -> bool:
        """Whether so many were refused in this push, and fewer accepted."""
        return 0 < self._largest_half < self._smallest_refused <= items

    def _may_split(self) -> bool:
        if self._clock() < self._no_splits_before:
            return False
        self._refusals += 1
        return self._refusals <= MAX_REFUSALS
