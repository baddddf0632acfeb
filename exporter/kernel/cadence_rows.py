"""The last beats of a process, as rows: the table that bpf/lib/cadence.bpf.h fills. Bytes in, numbers out."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.maps import MapReader

_COUNT, _BEAT = struct.Struct("=Q"), struct.Struct("=QQ")  # of which abi.CADENCE_ROW is made


class Beat(NamedTuple):
    """A collective, or a copy to the device. at_ns: CLOCK_MONOTONIC of its return. signature: equal where they are alike."""

    at_ns: int
    signature: int


class CadenceRow(NamedTuple):
    """Value of `cadence`. beats: so far. last: the ring as it was read, beat n at n % abi.BEATS."""

    beats: int
    last: bytes

    @property
    def oldest(self) -> int:
        """Number of the oldest beat that is still there."""
        return max(self.beats - abi.BEATS, 0)

    def since(self, number: int) -> tuple[list[Beat], bool]:
        """Beats from `number` on, and whether none of them is missing. One that is being written is left for the next time."""
        found: list[Beat] = []
        first = max(number, self.oldest)
        for n in range(first, self.beats):
            beat = self._beat(n)
            # Its place still holds the beat of a round ago, which is older than all others, or nothing.
            if not beat.at_ns or (n == self.beats - 1 and n >= abi.BEATS and beat.at_ns < self._beat(n + 1).at_ns):
                break
            found.append(beat)
        return found, first == number

    def _beat(self, number: int) -> Beat:
        return Beat(*_BEAT.unpack_from(self.last, number % abi.BEATS * _BEAT.size))


def read_cadence(table: MapReader | None, processes: Iterable[int]) -> dict[int, CadenceRow]:
    """Of these processes; those without a beat have none. None: the programs that fill the table did not load."""
    rows = {}
    for process in processes if table else ():
        value = table.get(abi.NUMBER.pack(process)) if table else None
        if value is not None:
            rows[process] = CadenceRow(_COUNT.unpack_from(value)[0], value[_COUNT.size :])
    return rows
