"""When the ranks of this node last entered collectives that ranks of other nodes take part in, for the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from exporter.clock import Moment
from exporter.history.collective_mark import MARKS_MAX, CollectiveMark
from exporter.kernel.process_rows import CommunicatorRow
from exporter.kernel.progress_rows import ProgressKey, ProgressRow


def collective_marks(
    communicators: Mapping[int, Iterable[CommunicatorRow]], progress: Mapping[ProgressKey, ProgressRow], at: Moment
) -> Sequence[CollectiveMark]:
    """One for each communicator, of the rank that was read first; the latest MARKS_MAX.

    A communicator with sends is left out: its last call may be one, and the time of the last collective is not known.
    """
    local = Counter(row.hash for rows in communicators.values() for row in rows)
    found: dict[int, CollectiveMark] = {}
    for process, rows in sorted(communicators.items()):
        for row in rows:
            known = progress.get(ProgressKey(process, row.ordinal))
            if not row.hash or row.ranks <= local[row.hash] or known is None:
                continue
            if known.collectives and known.collectives == known.enqueued:
                mark = CollectiveMark(row.hash, known.collectives, at.unix_ns_of(known.enqueued_ns))
                found.setdefault(row.hash, mark)
    return sorted(found.values(), key=lambda mark: -mark.at_unix_ns)[:MARKS_MAX]
