"""An order in which one owner of many cannot take every place: the first of each owner, then the second of each, and so on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def fairly(worst_first: Iterable[T], owner: Callable[[T], Hashable]) -> list[T]:
    """Those with the same place stay in the order given."""
    seen: Counter[Hashable] = Counter()
    placed: list[tuple[int, T]] = []
    for one in worst_first:
        placed.append((seen[owner(one)], one))
        seen[owner(one)] += 1
    return [one for _, one in sorted(placed, key=lambda pair: pair[0])]
