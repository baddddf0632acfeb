"""What the kernel's tables said tick by tick while a job ran, in a file of some KiB, and the same tables again from it.

A Recording has both runs of an episode, each with its steps and its ticks. A tick has only the rows that moved, each as the
XOR with what it was before: sums that grew by a little are almost all zeros, which compress to nothing.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.kernel import abi
from exporter.kernel.rows import EXEMPLAR_AT, SLOTS_AT
from exporter.kernel.thread_rows import THREADS_READ
from tests.faults.job import Result, Step
from tests.support.tables import FakeMap

SUFFIX = ".jsonl.xz"
MAPS = (
    "processes",
    "operations",
    "errors",
    "communicators",
    "progress",
    "exposures",
    "intervals",
    "feeding",
    "chains",
    "blame",
    "cadence",
)
"""Maps that accounting and chains need, in an order in which what explains a loss is read after it."""
THREADS = "threads"
"""Beside the maps: the output of the iterator over living threads, as if each were a row of a map."""

Rows = Mapping[bytes, bytes]
Moved = Mapping[str, Mapping[bytes, bytes | None]]
"""Table -> key -> XOR of the row with what it was; None when it is gone."""

LAYOUT = [
    *(row.size for row in (abi.PROCESS_ROW, abi.INTERVAL_ROW, abi.FEEDING_ROW, abi.CHAIN_ROW, abi.THREAD_ROW)),
    *(key.size for key in (abi.OPERATION_KEY, abi.INTERVAL_KEY, abi.CHAIN_KEY, abi.BLAME_KEY)),
    abi.EXPOSURE.size,
    EXEMPLAR_AT,
]
"""Sizes by which a recording's rows can be told from those of other kernel programs."""

_THREAD_KEY_BYTES = 8  # process and tid, the first two members of a thread row
_OPERATION_BYTES = SLOTS_AT + abi.OPERATION_SLOTS.size


class OtherLayout(Exception):
    """The kernel's tables have changed since."""


@dataclass(frozen=True)
class Tick:
    """One reading of the tables. now_ns: CLOCK_MONOTONIC, when it began."""

    now_ns: int
    moved: Moved


@dataclass(frozen=True)
class RecordedRun:
    """A run and its ticks, of which the last came when it was over. tgids: of each rank, as far as they said."""

    steps: tuple[Step, ...]
    injected_ns: tuple[int, int] | None
    tgids: Mapping[int, int]
    ticks: tuple[Tick, ...]

    def result(self) -> Result:
        """As the arithmetic of the truth takes it."""
        return Result(self.steps, (), 0, "", self.injected_ns)

    def of(self, rank: int) -> list[Step]:
        """The steps of a rank, in order."""
        return sorted((step for step in self.steps if step.rank == rank), key=lambda step: step.number)


@dataclass(frozen=True)
class Recording:
    """Both runs of an episode."""

    name: str
    clean: RecordedRun
    faulty: RecordedRun

    def save(self, folder: Path) -> Path:
        """Write the file of the episode; equal recordings make equal files."""
        lines: list[dict[str, Any]] = [{"name": self.name, "layout": LAYOUT}]
        for run in (self.clean, self.faulty):
            steps = [(step.rank, step.number, step.start_ns, step.end_ns) for step in run.steps]
            lines.append({"steps": steps, "injected_ns": run.injected_ns, "tgids": dict(run.tgids)})
            lines[-1]["ticks"] = [_written(tick) for tick in run.ticks]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        path = folder / f"{self.name}{SUFFIX}"
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        return path


def load(path: Path) -> Recording:
    """A recording from its file. Raises OtherLayout when it was made with rows of other sizes."""
    with lzma.open(path, "rt", encoding="ascii") as file:
        head, clean, faulty = map(json.loads, file)
    if head["layout"] != LAYOUT:
        raise OtherLayout(f"{path.name}: make it anew: python -m tests.faults.judge {head['name']} --out {path.parent}")
    return Recording(head["name"], _run_of(clean), _run_of(faulty))


def difference(before: Mapping[str, Rows], now: Mapping[str, Rows]) -> Moved:
    """What moved from one reading to the next; tables in which nothing did are left out."""
    moved: dict[str, dict[bytes, bytes | None]] = {}
    for name, rows in now.items():
        known = before.get(name, {})
        changes: dict[bytes, bytes | None] = {
            key: _xor(value, known.get(key, b"")) for key, value in rows.items() if value != known.get(key)
        }
        changes |= dict.fromkeys(known.keys() - rows.keys())
        if changes:
            moved[name] = changes
    return moved


def thread_rows(told: bytes) -> Rows:
    """The iterator's output as rows by process and tid."""
    size = abi.THREAD_ROW.size
    rows = [told[at : at + size] for at in range(0, len(told) - size + 1, size)]
    return {row[:_THREAD_KEY_BYTES]: row for row in rows}


def without_slots(name: str, value: bytes) -> bytes:
    """A row as it is kept: histograms and exemplars of operations are most of the bytes, and nothing of the accounting."""
    return value[:EXEMPLAR_AT] if name == "operations" else value


class RecordedMap(FakeMap):
    """A map that nothing is deleted from: it is what it was, whatever its reader prunes."""

    def delete(self, key: bytes) -> None:
        """Nothing: the recording knows the row as it was before and goes on from there."""


class Replay:
    """The tables of a run, as they were at one tick after the other.

    maps: for exporter.kernel.rows.Tables, by name. The histograms of operations are empty.
    """

    def __init__(self, ticks: Sequence[Tick]) -> None:
        self._ticks = ticks
        self._threads: dict[bytes, bytes] = {}
        self.maps = {name: RecordedMap() for name in MAPS}

    def iterate(self, program: str) -> bytes:
        """What the kernel's iterator over threads wrote."""
        return b"".join(self._threads.values()) if program == THREADS_READ else b""

    def ticks(self) -> Iterator[int]:
        """Bring the tables to each tick in turn; yields when that was."""
        for tick in self._ticks:
            for name, changes in tick.moved.items():
                rows = self._threads if name == THREADS else self.maps[name].rows
                for key, change in changes.items():
                    if change is None:
                        del rows[key]
                    else:
                        rows[key] = _xor(_padded(name, change), rows.get(key, b""))
            yield tick.now_ns


def _padded(name: str, value: bytes) -> bytes:
    return value.ljust(_OPERATION_BYTES, b"\0") if name == "operations" else value


def _xor(value: bytes, before: bytes) -> bytes:
    before = before[: len(value)].ljust(len(value), b"\0")
    return (int.from_bytes(value, "big") ^ int.from_bytes(before, "big")).to_bytes(len(value), "big")


def _written(tick: Tick) -> dict[str, Any]:
    tables = {
        name: [[key.hex(), change if change is None else change.hex()] for key, change in changes.items()]
        for name, changes in tick.moved.items()
    }
    return {"now_ns": tick.now_ns, "moved": tables}


def _run_of(line: dict[str, Any]) -> RecordedRun:
    steps = (Step(rank, number, start_ns, end_ns, 0, 0, 0, 0) for rank, number, start_ns, end_ns in line["steps"])
    injected_ns = (int(line["injected_ns"][0]), int(line["injected_ns"][1])) if line["injected_ns"] else None
    tgids = {int(rank): int(tgid) for rank, tgid in line["tgids"].items()}
    return RecordedRun(tuple(steps), injected_ns, tgids, tuple(_ticks_of(line["ticks"])))


def _ticks_of(written: Iterable[dict[str, Any]]) -> Iterator[Tick]:
    for tick in written:
        yield Tick(
            tick["now_ns"],
            {
                name: {bytes.fromhex(key): change and bytes.fromhex(change) for key, change in changes}
                for name, changes in tick["moved"].items()
            },
        )
