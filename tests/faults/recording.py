"""Both runs of an episode with what the kernel's tables said tick by tick, in a file of some KiB."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.recording.codec import LAYOUT, Tick
from tests.faults.job import Result, Step

SUFFIX = ".jsonl.xz"


class OtherLayout(Exception):
    """The recording was made with rows of other sizes."""


@dataclass(frozen=True)
class RecordedRun:
    """A run and its ticks, of which the last came when it was over. tgids: of each rank, as far as they said."""

    steps: tuple[Step, ...]
    injections_ns: tuple[tuple[int, int], ...]
    tgids: Mapping[int, int]
    ticks: tuple[Tick, ...]

    def result(self) -> Result:
        """As the arithmetic of the truth takes it."""
        return Result(self.steps, (), 0, "", self.injections_ns)

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
        lines += [written(run) for run in (self.clean, self.faulty)]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        path = folder / f"{self.name}{SUFFIX}"
        path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        return path


def load(path: Path) -> Recording:
    """A recording from its file. Raises OtherLayout when it was made with rows of other sizes."""
    with lzma.open(path, "rt", encoding="ascii") as file:
        head, clean, faulty = map(json.loads, file)
    if tuple(head["layout"]) != LAYOUT:
        raise OtherLayout(
            f"{path.name}: record it again: python -m tests.faults.judge {head['name']} --out {path.parent}"
        )
    return Recording(head["name"], run_of(clean), run_of(faulty))


def written(run: RecordedRun) -> dict[str, Any]:
    """As JSON can hold it."""
    steps = [(step.rank, step.number, step.start_ns, step.end_ns) for step in run.steps]
    line: dict[str, Any] = {"steps": steps, "injections_ns": run.injections_ns, "tgids": dict(run.tgids)}
    return line | {"ticks": [_written(tick) for tick in run.ticks]}


def _written(tick: Tick) -> dict[str, Any]:
    tables = {
        name: [[key.hex(), change if change is None else change.hex()] for key, change in changes.items()]
        for name, changes in tick.changes.items()
    }
    return {"now_ns": tick.now_ns, "moved": tables}


def run_of(line: dict[str, Any]) -> RecordedRun:
    """The run that was written so."""
    steps = (Step(rank, number, start_ns, end_ns, 0, 0, 0, 0) for rank, number, start_ns, end_ns in line["steps"])
    injections_ns = tuple((int(begin), int(end)) for begin, end in line["injections_ns"])
    tgids = {int(rank): int(tgid) for rank, tgid in line["tgids"].items()}
    return RecordedRun(tuple(steps), injections_ns, tgids, tuple(_ticks_of(line["ticks"])))


def _ticks_of(written: Iterable[dict[str, Any]]) -> Iterator[Tick]:
    for tick in written:
        yield Tick(
            tick["now_ns"],
            {
                name: {bytes.fromhex(key): change and bytes.fromhex(change) for key, change in changes}
                for name, changes in tick["moved"].items()
            },
        )
