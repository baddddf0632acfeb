"""The last beats of a process. Partner in C: bpf/lib/cadence.bpf.h."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.maps import MapReader

_LAST_AT = abi.CADENCE_ROW.offset("last")


class BeatRow(NamedTuple):
    """A place of the ring: as in Beat."""

    at_ns: int
    signature: int


class Beat(NamedTuple):
    """A collective, or a copy to the GPU. at_ns: CLOCK_MONOTONIC of its return. signature: equal for beats that are alike.

    number: how many beats the process had made before.
    """

    at_ns: int
    signature: int
    number: int

    @property
    def kind(self) -> int:
        """Equal for beats that are alike except for their size. Source: beat_signature() in bpf/lib/cadence.bpf.h."""
        return self.signature & 0xFFFF


class CadenceRow(NamedTuple):
    """Value of `cadence`. beats: so far. last: the raw ring, beat n at n % abi.BEATS."""

    beats: int
    last: bytes

    @property
    def oldest(self) -> int:
        """Number of the oldest beat in the ring."""
        return max(self.beats - abi.BEATS, 0)

    def since(self, number: int) -> tuple[list[Beat], bool]:
        """Beats from `number` on, and whether none of them is missing. A half-written beat is left for the next reading."""
        found: list[Beat] = []
        first = max(number, self.oldest)
        for n in range(first, self.beats):
            beat = self._beat(n)
            # Half written: its place is empty, or still holds the beat of one round ago, which is older than all others.
            if not beat.at_ns or (n == self.beats - 1 and n >= abi.BEATS and beat.at_ns < self._beat(n + 1).at_ns):
                break
            found.append(beat)
        return found, first == number

    def _beat(self, number: int) -> Beat:
        row = BeatRow(*abi.BEAT.unpack_from(self.last, number % abi.BEATS * abi.BEAT.size))
        return Beat(row.at_ns, row.signature, number)


def read_cadence(table: MapReader | None, processes: Iterable[int]) -> dict[int, CadenceRow]:
    """Rows of these processes that have beats. None: the programs that write the map are not loaded."""
    rows = {}
    for process in processes if table else ():
        value = table.get(abi.NUMBER.pack(process)) if table else None
        if value is not None:
            rows[process] = CadenceRow(abi.COUNT.unpack_from(value)[0], value[_LAST_AT:])
    return rows
