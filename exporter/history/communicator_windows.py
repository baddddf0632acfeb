"""The communicators of each process at the end of a window, and how long others waited for it there.

In: memberships and cumulative lags, as of the end of a window. Out: CommunicatorWindows by number of the process. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.history.membership import Membership
from exporter.history.window import CommunicatorWindow


class LagKey(NamedTuple):
    """communicator: its hash."""

    process: int
    communicator: int


class CommunicatorWindows:
    """Remembers the last window. Before the first one all lags were 0."""

    def __init__(self) -> None:
        self._lags_ns: Mapping[LagKey, int] = {}
        self._before: Mapping[int, Sequence[CommunicatorWindow]] = {}

    def build(
        self, processes: Iterable[int], memberships: Sequence[Membership], lags_ns: Mapping[LagKey, int]
    ) -> Mapping[int, Sequence[CommunicatorWindow]]:
        """Those of each process. One that has destroyed its last one has those of before: it belongs to the same job."""
        ranks_here = Counter(one.communicator for one in memberships)
        found: dict[int, list[CommunicatorWindow]] = {}
        for one in memberships:
            key = LagKey(one.process, one.communicator)
            added_ns = max(lags_ns.get(key, 0) - self._lags_ns.get(key, 0), 0)
            lag_ns = added_ns if ranks_here[one.communicator] > 1 else None
            place = CommunicatorWindow(one.communicator, one.rank, one.ranks, one.collectives, lag_ns)
            found.setdefault(one.process, []).append(place)
        for process in processes:
            if process not in found and process in self._before:
                found[process] = [place._replace(lag_ns=None) for place in self._before[process]]
        self._lags_ns, self._before = lags_ns, found
        return found
