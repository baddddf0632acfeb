"""A machine that has been up for 400 days, and one whose clock nearly overflows: chains are those of a machine just started."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest

from exporter.demo.scenarios import SCENARIOS
from exporter.kernel import abi
from exporter.kernel.layout import Layout
from exporter.kernel.thread_rows import THREADS_READ
from exporter.pipeline.replay import ReplayedRun
from exporter.recording.codec import GPUS, THREADS, RowReplay, Rows, Tick, difference, gpu_state_rows, thread_rows
from exporter.recording.file import read

DAY_NS: Final = 86_400 * 10**9
LATER_NS: Final = {
    "beyond what a float counts exactly": 400 * DAY_NS,
    "at the end of a signed clock": 2**63 - 2**46,
}
"""All recordings were made less than half a day after boot, which is below 2**46 ns."""
TIMES: Final[dict[str, tuple[Layout, tuple[str, ...]]]] = {
    THREADS: (abi.THREAD_ROW, ("read_ns", "opened_ns")),
    "processes": (abi.PROCESS_ROW, ("start_ns",)),
    "communicators": (abi.COMMUNICATOR_ROW, ("created_ns",)),
    "progress": (abi.PROGRESS_ROW, ("enqueued_ns", "completed_ns")),
    "feeding": (abi.FEEDING_ROW, ("stalled_since_ns",)),
    "exits": (abi.EXIT_ROW, ("at_ns",)),
    "last_errors": (abi.LAST_ERROR, ("at_ns",)),
    "cadence": (abi.CADENCE_ROW, ("last",)),
}
"""Members that have a reading of the clock; 0 stands for none. Of `last` it is each second word."""


def later(name: str, row: bytes, by_ns: int) -> bytes:
    """The row with all readings of the clock so much later."""
    if name not in TIMES:
        return row
    layout, members = TIMES[name]
    changed = bytearray(row)
    for member in members:
        first, size = layout.offset(member), struct.calcsize("=" + layout.members[member])
        for at in range(first, first + size, abi.BEAT.size):
            (then_ns,) = struct.unpack_from("=Q", row, at)
            struct.pack_into("=Q", changed, at, then_ns + by_ns if then_ns else 0)
    return bytes(changed)


def later_ticks(ticks: Iterable[Tick], by_ns: int) -> Iterator[Tick]:
    """What would have been recorded if the machine had been up for so much longer."""
    replay, before = RowReplay(ticks), dict[str, Rows]()
    for now_ns in replay.ticks():
        rows: dict[str, Rows] = {name: table.rows for name, table in replay.maps.items()}
        rows |= {THREADS: thread_rows(replay.iterate(THREADS_READ)), GPUS: gpu_state_rows(replay.gpus())}
        now = {name: {key: later(name, row, by_ns) for key, row in of.items()} for name, of in rows.items()}
        yield Tick(now_ns + by_ns, difference(before, now))
        before = now


def earlier(found: Any, by_ns: int) -> Any:
    """The same record with each number that can only be a reading of a later clock set back, as plain tuples."""
    if dataclasses.is_dataclass(found):
        found = tuple(getattr(found, one.name) for one in dataclasses.fields(found))
    if isinstance(found, dict):
        found = tuple(found.items())
    if isinstance(found, (tuple, list)):
        return tuple(earlier(one, by_ns) for one in found)
    return found - by_ns if isinstance(found, int) and found >= by_ns > 0 else found


class TestLongUptime:
    @pytest.mark.parametrize("uptime", LATER_NS)
    @pytest.mark.parametrize("scenario", ["cpu-contention", "hang", "straggler"])
    def test_chains_are_those_of_a_machine_that_was_just_started(self, scenario: str, uptime: str) -> None:
        """With the same figures, to the nanosecond."""
        recording, by_ns = read(SCENARIOS[scenario].recording), LATER_NS[uptime]
        recorded = [earlier(one, 0) for one in ReplayedRun(recording.ticks()).play()]
        found = [earlier(one, by_ns) for one in ReplayedRun(later_ticks(recording.ticks(), by_ns)).play()]

        assert len(recorded) >= 2
        assert found == recorded
