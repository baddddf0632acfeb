"""Since when time is charged to each process id: a process that has started later is another one with the same id.

In: rows of the kernel with process ids, as of each update. Out: the time of the update in which an id first appeared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from exporter.kernel.awaited_rows import AwaitedKey
from exporter.kernel.thread_rows import BlameKey


class ChargedSince:
    """Remembers an id as long as a row has it: the kernel bounds the rows."""

    def __init__(self) -> None:
        self._since_ns: dict[int, int] = {}
        self._blame: Iterable[BlameKey] = ()
        self._awaited: Iterable[AwaitedKey] = ()

    def update(self, blame: Mapping[BlameKey, int], awaited: Mapping[AwaitedKey, int], now_ns: int) -> None:
        """Tables that have not changed are the same objects as last time."""
        if blame is self._blame and awaited is self._awaited:
            return
        self._blame, self._awaited = blame, awaited
        tgids = {tgid for key in blame for tgid in (key.tgid, key.ancestor_tgid)}
        tgids.update(key.by.tgid for key in awaited)
        self._since_ns = {tgid: self._since_ns.get(tgid, now_ns) for tgid in tgids if tgid}

    def of(self, tgid: int) -> int:
        """0 for an id that no row has."""
        return self._since_ns.get(tgid, 0)
