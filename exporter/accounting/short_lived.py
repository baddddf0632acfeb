"""Names culprits; short-lived programs of many names share that of their parent: a compiler run, a shell script, a cron job.

In: blame keys, which name the nearest ancestor of a short-lived process that is not short-lived itself. Out: names, such as
`make (children)`. Where that ancestor is the first process of the machine, which starts whatever it is asked for, the name is
that of the systemd unit or container. Partner in C: run_find_ancestor() in bpf/lib/runs.bpf.h.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.accounting.culprits import NameOfGroup, culprit_name, no_names, program_name
from exporter.kernel.thread_rows import BlameKey
from exporter.text.printable import printable
from exporter.units import NANOSECONDS

MANY_NAMES = 5
"""So many names below one ancestor within MEMORY_NS are told as one."""
MEMORY_NS = 60 * NANOSECONDS
LASTING_NS = 2 * NANOSECONDS
"""A process that is charged for longer than this is a culprit of its own."""
SUFFIX = " (children)"

_INIT = 1
_UNIT_CHARACTERS = 64
_MAX_FAMILIES = 256
_MAX_MEMBERS = 1_024

_Family = tuple[int, int]  # tgid of the ancestor, and the cgroup


class ShortLived:
    """Remembers which names were met below each ancestor."""

    def __init__(self, name_of_group: NameOfGroup = no_names) -> None:
        self._name_of_group = name_of_group
        self._families: dict[_Family, _Members] = {}

    def observe(self, charged: Iterable[BlameKey], now_ns: int) -> None:
        """Culprits charged since the last update."""
        for key in charged:
            if key.ancestor_tgid:
                family = key.ancestor_tgid, key.cgroup_id
                members = self._families.pop(family) if family in self._families else _Members()
                self._families[family] = members  # the last one that is forgotten
                members.add(key, now_ns)
        while len(self._families) > _MAX_FAMILIES:
            del self._families[next(iter(self._families))]
        for members in self._families.values():
            members.forget_before(now_ns - MEMORY_NS)

    def name_of(self, key: BlameKey) -> str:
        """Name of the culprit; "" where no program held the CPU."""
        return self._shared_name(key) if self._is_shared(key) else culprit_name(key)

    def tgid_of(self, key: BlameKey) -> int:
        """The process to act on; 0: none, as for the first process of the machine."""
        if not self._is_shared(key):
            return key.tgid
        return 0 if key.ancestor_tgid == _INIT else key.ancestor_tgid

    def _is_shared(self, key: BlameKey) -> bool:
        members = self._families.get((key.ancestor_tgid, key.cgroup_id)) if key.ancestor_tgid else None
        return members is not None and members.are_many() and not members.is_lasting(key.tgid)

    def _shared_name(self, key: BlameKey) -> str:
        if key.ancestor_tgid == _INIT:
            unit = printable(self._name_of_group(key.cgroup_id))[:_UNIT_CHARACTERS]
            if unit:
                return unit
        return program_name(key.ancestor_comm) + SUFFIX


class _Members:
    """Short-lived processes below one ancestor."""

    def __init__(self) -> None:
        self._names: dict[bytes, int] = {}  # -> when it was last charged
        self._charged: dict[int, tuple[int, int]] = {}  # tgid -> when it was first and last charged

    def add(self, key: BlameKey, now_ns: int) -> None:
        self._names.pop(key.comm, None)
        self._names[key.comm] = now_ns
        first_ns, _ = self._charged.pop(key.tgid, (now_ns, now_ns))
        self._charged[key.tgid] = first_ns, now_ns
        if len(self._names) > _MAX_MEMBERS:
            del self._names[next(iter(self._names))]
        if len(self._charged) > _MAX_MEMBERS:
            del self._charged[next(iter(self._charged))]

    def forget_before(self, since_ns: int) -> None:
        """The oldest come first."""
        while self._names and next(iter(self._names.values())) < since_ns:
            del self._names[next(iter(self._names))]
        while self._charged and next(iter(self._charged.values()))[1] < since_ns:
            del self._charged[next(iter(self._charged))]

    def are_many(self) -> bool:
        return len(self._names) >= MANY_NAMES

    def is_lasting(self, tgid: int) -> bool:
        first_ns, last_ns = self._charged.get(tgid, (0, 0))
        return last_ns - first_ns >= LASTING_NS
