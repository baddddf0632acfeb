"""How much the objects of the exporter hold: the sizes of all collections that can be reached from some of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

COLLECTIONS = (dict, list, set, frozenset, tuple, deque)


def sizes(*roots: object) -> dict[str, int]:
    """Which collection, such as `WorkloadRegistry._traced`, -> the entries of the largest one.

    A collection in another one has its name with `[]`. Only the exporter's own classes are entered, and no threads.
    """
    found: dict[str, int] = {}
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", root) for root in roots]
    while waiting:
        place, one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, COLLECTIONS):
            found[place] = max(found.get(place, 0), len(one))
            values = [*one.keys(), *one.values()] if isinstance(one, Mapping) else one
            waiting += [(f"{place}[]", value) for value in values if not isinstance(value, (int, float, str, bytes))]
        elif type(one).__module__.startswith("exporter."):
            waiting += [(f"{type(one).__name__}.{name}", value) for name, value in _members(one)]
    return found


def _members(one: object) -> Iterator[tuple[str, object]]:
    slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in [*getattr(one, "__dict__", ()), *slots]:
        value = getattr(one, name, None)
        if not isinstance(value, (type, threading.Thread)):
            yield name, value
