"""The last outputs of a serving engine. Partner in C: bpf/lib/outputs.bpf.h."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.maps import MapReader


class Output(NamedTuple):
    """at_ns: return of the call that found it complete, CLOCK_MONOTONIC. paused_ns: pauses since the output before."""

    at_ns: int
    paused_ns: int


class OutputRow(NamedTuple):
    """Value of `outputs`. outputs: so far. copied: copies enqueued. last: the ring, output n at n % abi.OUTPUTS.

    work_ns: when work was enqueued, first after a copy or a pause. quiet_ns: end of the last output or pause. paused_ns: since
    then.
    """

    outputs: int
    copied: int
    work_ns: int
    quiet_ns: int
    paused_ns: int
    last: tuple[int, ...]

    @property
    def oldest(self) -> int:
        """Number of the oldest output in the ring that the next one does not overwrite."""
        return max(self.outputs - abi.OUTPUTS + 1, 0)

    def since(self, number: int) -> tuple[list[Output], int]:
        """Outputs from `number` on, and how many of them were overwritten before they were read."""
        first = max(number, self.oldest)
        places = (n % abi.OUTPUTS * 2 for n in range(first, self.outputs))
        return [Output(self.last[at], self.last[at + 1]) for at in places], first - number


def read_outputs(table: MapReader | None, processes: Iterable[int]) -> dict[int, OutputRow]:
    """Rows of these processes that have outputs. None: the programs that write the map are not loaded."""
    rows = {}
    for process in processes if table else ():
        value = table.get(abi.NUMBER.pack(process)) if table else None
        if value is not None:
            outputs, copied, work_ns, quiet_ns, paused_ns, *last = abi.OUTPUT_ROW.unpack(value)
            rows[process] = OutputRow(outputs, copied, work_ns, quiet_ns, paused_ns, tuple(last))
    return rows
