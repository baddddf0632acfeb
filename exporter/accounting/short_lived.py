"""Names culprits; short-lived programs of many names share that of their parent: a compiler run, a shell script, a cron job.

In: blame keys, which name the nearest lasting ancestor of a young process. Out: names, such as `make (children)`. Where that
ancestor is the first process of the machine, which starts any service, the name is that of the systemd unit or
container. Partner in C: run_find_ancestor() in bpf/lib/runs.bpf.h.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.accounting.culprits import NameOfGroup, culprit_name, no_names, program_name
from exporter.kernel.thread_rows import BlameKey
from exporter.text.printable import printable
from exporter.units import NANOSECONDS

MANY_NAMES = 5
"""So many names below one ancestor within MEMORY_NS are reported as one."""
MEMORY_NS = 60 * NANOSECONDS
SUFFIX = " (children)"

_INIT = 1
_UNIT_CHARACTERS = 64
_MAX_FAMILIES = 256
_MAX_NAMES = 1_024

_Family = tuple[int, int]  # tgid of the ancestor, and the cgroup


class ShortLived:
    """Remembers which names were met below each ancestor."""

    def __init__(self, name_of_group: NameOfGroup = no_names) -> None:
        self._name_of_group = name_of_group
        self._families: dict[_Family, dict[bytes, int]] = {}  # -> name -> when it was last charged

    def observe(self, charged: Iterable[BlameKey], now_ns: int) -> None:
        """Culprits charged since the last update."""
        for key in charged:
            if key.ancestor_tgid:
                family = key.ancestor_tgid, key.cgroup_id
                names = self._families.pop(family) if family in self._families else {}
                self._families[family] = names  # behind all others
                names.pop(key.comm, None)
                names[key.comm] = now_ns
                if len(names) > _MAX_NAMES:
                    del names[next(iter(names))]
        while len(self._families) > _MAX_FAMILIES:
            del self._families[next(iter(self._families))]
        for names in self._families.values():
            while names and next(iter(names.values())) < now_ns - MEMORY_NS:
                del names[next(iter(names))]

    def name_of(self, key: BlameKey) -> str:
        """Name of the culprit; "" where no program held the CPU."""
        return self._shared_name(key) if self._is_shared(key) else culprit_name(key)

    def tgid_of(self, key: BlameKey) -> int:
        """The process to act on; 0: none, as for the first process of the machine."""
        if not self._is_shared(key):
            return key.tgid
        return 0 if key.ancestor_tgid == _INIT else key.ancestor_tgid

    def _is_shared(self, key: BlameKey) -> bool:
        if not key.ancestor_tgid:
            return False
        return len(self._families.get((key.ancestor_tgid, key.cgroup_id), ())) >= MANY_NAMES

    def _shared_name(self, key: BlameKey) -> str:
        if key.ancestor_tgid == _INIT:
            unit = printable(self._name_of_group(key.cgroup_id))[:_UNIT_CHARACTERS]
            if unit:
                return unit
        return program_name(key.ancestor_comm) + SUFFIX
