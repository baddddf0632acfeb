"""Which of the processes that are new are read now: as many as time allows, of each owner in turn.

In: rows of the kernel. Out: WorkloadProcesses. A program may start thousands in a second; the others wait for the next call. One
that has ended before its turn stays unread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.share_rows import ProcessShare
from exporter.model import fairly
from exporter.workloads import refusals
from exporter.workloads.owner import user_owner
from exporter.workloads.process_reader import ProcessReader
from exporter.workloads.refusals import Refusals
from exporter.workloads.workload_process import WorkloadProcess, unread_process

READ_SECONDS: Final = 0.1
"""What reading /proc may take at a time. One process takes a millisecond, and up to 50 where it makes that hard."""


class NewProcesses:
    """share_of: what the kernel programs know of a process's owner."""

    def __init__(
        self,
        reader: ProcessReader,
        share_of: Callable[[int], ProcessShare | None],
        refused: Refusals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._share_of = share_of
        self._refused = refused
        self._clock = clock

    def read(
        self, rows: Mapping[int, ProcessRow], unknown: Collection[int], ended: Collection[int]
    ) -> Iterator[tuple[int, WorkloadProcess, ProcessShare | None]]:
        """Those of `unknown` that are read now, and those that need not be read."""
        newest = {row.tgid: number for number, row in sorted(rows.items())} if unknown else {}
        shares = {number: self._share_of(number) for number in unknown}
        until = self._clock() + READ_SECONDS
        for number in fairly(sorted(unknown, key=lambda one: (one in ended, one)), lambda one: _owner(shares[one])):
            row, share = rows[number], shares[number]
            uid = share.uid if share else 0
            if newest[row.tgid] != number:
                yield number, unread_process(row, uid), share
            elif self._clock() < until:
                yield number, self._reader.read(number, row, uid), share
            elif number in ended:
                self._refused.add(refusals.READS, user_owner(uid))
                yield number, unread_process(row, uid), share


def _owner(share: ProcessShare | None) -> int:
    return share.place if share else 0
