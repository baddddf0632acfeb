"""Which ranks the processes of this node are in their communicators, and how far they have come, for windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from exporter.clock import Moment
from exporter.history.communicator_windows import LagKey
from exporter.history.membership import Membership
from exporter.history.window import ProcessLabels
from exporter.kernel import abi
from exporter.kernel.process_rows import CommunicatorRow
from exporter.kernel.progress_rows import ProgressKey, ProgressRow

_NO_PROGRESS: Final = ProgressRow(0, 0, 0, 0, 0, 0, 0)


def memberships(
    communicators: Mapping[int, Iterable[CommunicatorRow]],
    progress: Mapping[ProgressKey, ProgressRow],
    labels: Mapping[int, ProcessLabels],
    at: Moment,
) -> Sequence[Membership]:
    """Those of processes whose labels are known, in communicators of at least two ranks whose creation was traced.

    Processes take turns, so that one with many leaves the others room where only the first ones are kept.
    """
    found: list[list[Membership]] = []
    for process, rows in sorted(communicators.items()):
        found.append([])
        for row in rows:
            if not _has_ranks(row) or process not in labels:
                continue
            known = progress.get(ProgressKey(process, row.ordinal), _NO_PROGRESS)
            entered_unix_ns = at.unix_ns_of(known.enqueued_ns or row.created_ns)
            found[-1].append(
                Membership(process, row.hash, row.rank, row.ranks, known.collectives, entered_unix_ns, labels[process])
            )
    return [one for turn in zip_longest(*found) for one in turn if one is not None]


def lags_ns(
    communicators: Mapping[int, Iterable[CommunicatorRow]], progress: Mapping[ProgressKey, ProgressRow]
) -> Mapping[LagKey, int]:
    """How long each process has come after the node's first rank so far, in the same communicators."""
    return {
        LagKey(process, row.hash): known.lag_ns
        for process, rows in communicators.items()
        for row in rows
        if _has_ranks(row) and (known := progress.get(ProgressKey(process, row.ordinal)))
    }


def _has_ranks(row: CommunicatorRow) -> bool:
    """Whether its creation was traced, it is counted apart, and it has other ranks."""
    return bool(row.hash) and row.rank >= 0 and row.ordinal != abi.COMMUNICATOR_OTHER and row.ranks > 1
