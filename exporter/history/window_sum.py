"""Windows of one process, added up to one window of a longer interval.

In: documents of windows as the file holds them, tens of thousands for a day, so they are added up before they are checked. Out: a
document of the same form, and the Window that it becomes, which checks the sum: what is no whole number does not become one by
adding it up.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from operator import add
from typing import Any, Final

from exporter.history.window import StackOf, Window, no_stacks
from exporter.text import untrusted
from exporter.units import SLOTS

NAMES_MAX: Final = 1 << 16
"""Culprits, causes, states, operations or call sites of one sum."""


class Part(enum.Enum):
    """What takes time to add up, and is not always needed."""

    OPERATIONS = enum.auto()
    CALL_SITES = enum.auto()


class WindowSum:
    """covered_ns: total length of the windows. Documents that were added must not be used any more: parts of them are kept."""

    __slots__ = (
        "_call_sites",
        "_culprits_ns",
        "_labels",
        "_lost_ns",
        "_operations",
        "_process",
        "_states_ns",
        "_steps",
        "_switches",
        "began_unix_ns",
        "covered_ns",
        "ended_unix_ns",
    )

    def __init__(self, process: Any, began_unix_ns: int) -> None:
        self._process = process
        self.began_unix_ns = self.ended_unix_ns = began_unix_ns
        self.covered_ns = 0
        self._labels: Any = None
        self._steps: list[Any] = [0, 0, []]
        self._lost_ns: dict[str, Any] = {}
        self._culprits_ns: dict[tuple[Any, Any], Any] = {}
        self._states_ns: dict[str, Any] = {}
        self._switches: Any = [0, 0]
        self._operations: dict[tuple[Any, Any], list[Any]] = {}
        self._call_sites: dict[tuple[Any, Any, Any], list[Any]] = {}

    @property
    def names(self) -> int:
        """How many names of culprits, causes, states, operations and call sites it holds: what it takes of memory."""
        causes_and_states = len(self._lost_ns) + len(self._culprits_ns) + len(self._states_ns)
        return causes_and_states + len(self._operations) + len(self._call_sites)

    def add(self, document: Any, ended_unix_ns: int, covered_ns: int, parts: Collection[Part] = tuple(Part)) -> None:
        """covered_ns: length of the window. Raises ValueError, TypeError or LookupError for a document of another form."""
        _, self._labels, steps, lost_ns, culprits_ns, states_ns, switches, operations, *rest = document
        self.ended_unix_ns = max(self.ended_unix_ns, ended_unix_ns)
        self.covered_ns += covered_ns
        _add_histogram(self._steps, steps)
        _add_named(self._lost_ns, lost_ns)
        for cause, culprit, ns in culprits_ns:
            key = cause, culprit
            self._culprits_ns[key] = self._culprits_ns.get(key, 0) + ns
        _add_named(self._states_ns, states_ns)
        self._switches = [*map(add, self._switches, switches)]
        if Part.OPERATIONS in parts:
            self._add_operations(operations)
        if Part.CALL_SITES in parts:
            for call_sites in rest:  # none in a file of version 1
                self._add_call_sites(call_sites)

    def _add_operations(self, operations: Any) -> None:
        for api, name, calls, errors, timed in operations:
            known = self._operations.get((api, name))
            if known is None:
                known = self._operations[api, name] = [0, 0, [0, 0, []]]
            known[0] += calls
            known[1] += errors
            _add_histogram(known[2], timed)

    def _add_call_sites(self, call_sites: Any) -> None:
        """The bound from which on calls are slow is the latest."""
        for api, name, slow_from_ns, calls, total_ns, stack in call_sites:
            known = self._call_sites.get((api, name, stack))
            if known is None:
                known = self._call_sites[api, name, stack] = [0, 0, 0]
            known[0] = slow_from_ns
            known[1] += calls
            known[2] += total_ns

    def to_document(self) -> list[Any]:
        """As Window.to_document()."""
        return [
            self._process,
            self._labels,
            self._steps,
            self._lost_ns,
            [[*key, ns] for key, ns in self._culprits_ns.items()],
            self._states_ns,
            self._switches,
            [[*key, *figures] for key, figures in self._operations.items()],
            [[api, name, *figures, stack] for (api, name, stack), figures in self._call_sites.items()],
        ]

    def to_window(self, stack_of: StackOf = no_stacks) -> Window:
        """Raises ValueError if what was added up were no windows."""
        return Window.from_document(self.to_document(), self.began_unix_ns, self.ended_unix_ns, stack_of, NAMES_MAX)


def _add_named(total: dict[str, Any], more: Any) -> None:
    for name in more:
        total[name] = total.get(name, 0) + more[name]


def _add_histogram(total: list[Any], more: Any) -> None:
    """Both: sum, number of the first bucket, counts."""
    sum_ns, begin, held = more
    if type(begin) is not int or type(held) is not list or not 0 <= begin <= SLOTS - len(held):
        raise untrusted.Untrusted("want a histogram")
    total[0] += sum_ns
    if not held:
        return
    _, first, counts = total
    if not counts:
        total[1:] = begin, held
        return
    if begin < first:
        counts[:0] = [0] * (first - begin)
        total[1] = first = begin
    start, end = begin - first, begin - first + len(held)
    counts.extend([0] * (end - len(counts)))
    counts[start:end] = map(add, counts[start:end], held)
