"""Encodes the rows that the kernel's maps had at each tick, and replays them.

In: rows as they were read. Out: Ticks; a RowReplay whose maps exporter.kernel.tables.Tables can read. A tick holds only the rows
that changed, each as the XOR with its previous value: a sum that has grown a little is almost all zeros and compresses well.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from exporter.gpu.model import GpuState
from exporter.kernel import abi
from exporter.kernel.operation_rows import EXEMPLAR_AT
from exporter.kernel.thread_rows import THREADS_READ
from exporter.text import untrusted

_FIRST_MAPS = (
    "processes",
    "operations",
    "errors",
    "communicators",
    "progress",
    "exposures",
    "intervals",
    "feeding",
    "wakeups",
    "blame",
    "cadence",
)
_LATER_MAPS = ("disk_waits", "disk_users", "exits", "last_errors", "copies", "graph_rows")
_LAST_MAPS = ("awaited",)
MAPS = (*_FIRST_MAPS, *_LATER_MAPS, *_LAST_MAPS)
"""Maps that accounting and chains need. A map that explains lost time is read after the map that has the lost time."""
THREADS = "threads"
"""Output of the iterator over living threads, one row per thread."""
GPUS = "gpus"
"""States of GPUs, which do not come from the kernel."""
TABLES = (*_FIRST_MAPS, THREADS, *_LATER_MAPS, GPUS, *_LAST_MAPS)
"""Numbered by position in files: new tables are appended."""

Rows = Mapping[bytes, bytes]
Changes = Mapping[str, Mapping[bytes, bytes | None]]
"""Table -> key -> XOR of the row with its previous value; None if the row was deleted."""

LAYOUT = (
    *(row.size for row in (abi.PROCESS_ROW, abi.INTERVAL_ROW, abi.FEEDING_ROW, abi.WAKEUP_ROW, abi.THREAD_ROW)),
    *(key.size for key in (abi.OPERATION_KEY, abi.INTERVAL_KEY, abi.WAKEUP_KEY, abi.BLAME_KEY, abi.AWAITED_KEY)),
    abi.EXPOSURE.size,
    EXEMPLAR_AT,
)
"""Sizes of rows: a recording with other sizes was made with other kernel programs."""

_THREAD_KEY_BYTES = 8  # process and tid, the first two members of a thread row
_OPERATION_BYTES = abi.OPERATION_ROW.size

_HEAD = struct.Struct("<Q?I")  # now_ns, is_whole, changes
_CHANGE = struct.Struct("<BHI")  # number of the table, bytes of the key, of the value
_DELETED = 0xFFFFFFFF
_MAX_CHANGES = 1 << 16
_MAX_HELD_BYTES = 32 << 20  # of all rows of a replay
_ROW_BYTES = 150  # that a row takes beside its bytes
_MAX_GPUS = 1024
_MAX_GPU_BYTES = 1 << 20  # of one GPU's state
_MAX_GPU_PROCESSES = 8192
_MAX_REASONS = 64
_MAX_DIGITS = 10


@dataclass(frozen=True)
class Tick:
    """One reading of the tables. now_ns: CLOCK_MONOTONIC when it began. is_whole: it has all rows, not only changed ones."""

    now_ns: int
    changes: Changes
    is_whole: bool = False

    def encoded(self) -> bytes:
        rows = [
            _CHANGE.pack(TABLES.index(name), len(key), _DELETED if value is None else len(value)) + key + (value or b"")
            for name, changes in self.changes.items()
            for key, value in changes.items()
        ]
        return _HEAD.pack(self.now_ns, self.is_whole, len(rows)) + b"".join(rows)

    @classmethod
    def decoded(cls, raw: bytes) -> Tick:
        """The inverse of encoded(). Raises ValueError for other bytes."""
        changes: dict[str, dict[bytes, bytes | None]] = {}
        try:
            now_ns, is_whole, count = _HEAD.unpack_from(raw)
            at = _HEAD.size
            if count > _MAX_CHANGES:
                raise ValueError(f"a tick has more than {_MAX_CHANGES} rows")
            for _ in range(count):
                table, key_bytes, value_bytes = _CHANGE.unpack_from(raw, at)
                at += _CHANGE.size
                is_deleted = value_bytes == _DELETED
                end = at + key_bytes + (0 if is_deleted else value_bytes)
                if end > len(raw):
                    raise ValueError("a row reaches beyond its tick")
                key = raw[at : at + key_bytes]
                changes.setdefault(TABLES[table], {})[key] = None if is_deleted else raw[at + key_bytes : end]
                at = end
        except (struct.error, IndexError) as error:
            raise ValueError(f"not a tick: {error}") from None
        if at != len(raw):
            raise ValueError("a tick has more bytes than rows")
        return cls(now_ns, changes, is_whole)


def difference(before: Mapping[str, Rows], now: Mapping[str, Rows]) -> Changes:
    """What changed from one reading to the next, without tables in which nothing did."""
    found: dict[str, dict[bytes, bytes | None]] = {}
    for name, rows in now.items():
        known = before.get(name, {})
        if rows is known or rows == known:
            continue
        changed: dict[bytes, bytes | None] = {
            key: _xor(value, known.get(key, b"")) for key, value in rows.items() if value != known.get(key)
        }
        changed |= dict.fromkeys(known.keys() - rows.keys())
        if changed:
            found[name] = changed
    return found


def thread_rows(output: bytes) -> Rows:
    """output: of the iterator. Rows by process and tid."""
    size = abi.THREAD_ROW.size
    rows = [output[at : at + size] for at in range(0, len(output) - size + 1, size)]
    return {row[:_THREAD_KEY_BYTES]: row for row in rows}


def gpu_state_rows(states: Iterable[GpuState]) -> Rows:
    """States of GPUs as rows by GPU and MIG instance."""
    return {f"{one.gpu}\0{one.mig}".encode(): json.dumps(one[2:], separators=(",", ":")).encode() for one in states}


def gpu_states(rows: Rows) -> tuple[GpuState, ...]:
    """The inverse of gpu_state_rows(). Raises ValueError for other rows."""
    if len(rows) > _MAX_GPUS:
        raise untrusted.Untrusted(f"more than {_MAX_GPUS} GPUs")
    return tuple(_gpu_state(key, value) for key, value in rows.items())


def _gpu_state(key: bytes, value: bytes) -> GpuState:
    gpu, _, mig = key.decode("utf-8", "replace").partition("\0")
    state = untrusted.json_value(value, _MAX_GPU_BYTES)
    throttled, link, total_bytes, of_processes = untrusted.sequence(state, length=4)
    used = untrusted.mapping(of_processes, _MAX_GPU_PROCESSES).items()
    throttled_ns = untrusted.mapping(throttled, _MAX_REASONS).items()
    return GpuState(
        untrusted.text(gpu),
        untrusted.text(mig),
        {untrusted.text(reason): untrusted.count(ns) for reason, ns in throttled_ns},
        untrusted.number(link),
        untrusted.count(total_bytes),
        {_tgid_of(tgid): untrusted.count(used_bytes) for tgid, used_bytes in used},
    )


def _tgid_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
        raise untrusted.Untrusted("a process of a GPU without a number")
    return int(text)


def without_histogram(name: str, value: bytes) -> bytes:
    """A row as it is recorded: without histograms and exemplars, which are most of the bytes and not needed for accounting."""
    return value[:EXEMPLAR_AT] if name == "operations" else value


class RecordedMap:
    """A MapReader that ignores changes: its reader may prune rows, which the next tick still needs."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    @property
    def capacity(self) -> int:
        return len(self.rows)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once, in any order."""
        yield from list(self.rows.items())

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Ignored."""

    def delete(self, key: bytes) -> None:
        """Ignored: the next tick is applied to the row as it was."""


class RowReplay:
    """Replays the tables of a recording, tick by tick.

    maps: for exporter.kernel.tables.Tables, by name. Histograms of operations are empty.
    """

    def __init__(self, ticks: Iterable[Tick]) -> None:
        self._ticks = ticks
        self._threads: dict[bytes, bytes] = {}
        self._gpus: dict[bytes, bytes] = {}
        self._held_bytes = 0
        self._other_tables = {THREADS: self._threads, GPUS: self._gpus}
        self.maps = {name: RecordedMap() for name in MAPS}

    def iterate(self, program: str) -> bytes:
        """Output of the iterator over threads."""
        return b"".join(self._threads.values()) if program == THREADS_READ else b""

    def gpus(self) -> tuple[GpuState, ...]:
        """States of GPUs."""
        return gpu_states(self._gpus)

    def ticks(self) -> Iterator[int]:
        """Applies each tick to the tables, and yields its time.

        Raises ValueError if a row is deleted that does not exist, or if the rows take more memory than those of a node may.
        """
        for tick in self._ticks:
            if tick.is_whole:
                self._held_bytes = 0
                self._threads.clear()
                self._gpus.clear()
                for table in self.maps.values():
                    table.rows.clear()
            for name, changes in tick.changes.items():
                rows = self._other_tables[name] if name in self._other_tables else self.maps[name].rows
                for key, change in changes.items():
                    self._apply(name, rows, key, change)
            yield tick.now_ns

    def _apply(self, name: str, rows: dict[bytes, bytes], key: bytes, change: bytes | None) -> None:
        before = rows.get(key)
        if before is not None:
            self._held_bytes -= len(key) + len(before) + _ROW_BYTES
        if change is not None:
            rows[key] = _xor(_padded(name, change), before or b"")
            self._held_bytes += len(key) + len(rows[key]) + _ROW_BYTES
        elif before is not None:
            del rows[key]
        else:
            raise ValueError(f"a tick deletes a row of {name} that does not exist")
        if self._held_bytes > _MAX_HELD_BYTES:
            raise ValueError("the rows of a tick take more memory than those of a node may")


def _padded(name: str, value: bytes) -> bytes:
    return value.ljust(_OPERATION_BYTES, b"\0") if name == "operations" else value


def _xor(value: bytes, before: bytes) -> bytes:
    before = before[: len(value)].ljust(len(value), b"\0")
    return (int.from_bytes(value, "big") ^ int.from_bytes(before, "big")).to_bytes(len(value), "big")
