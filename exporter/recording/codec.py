"""The kernel's rows tick by tick: what moved from one reading to the next, as bytes, and the same tables again from it.

In: rows as they were read. Out: Ticks; maps for exporter.kernel.tables.Tables, brought to one tick after the other. A tick has
only the rows that moved, each as the XOR with what it was before: sums that grew by a little are almost all zeros, which compress
to nothing.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from exporter.gpu.model import GpuState
from exporter.kernel import abi
from exporter.kernel.operation_rows import EXEMPLAR_AT, SLOTS_AT
from exporter.kernel.thread_rows import THREADS_READ

_FIRST_MAPS = (
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
_LATER_MAPS = ("disk_waits", "disk_users", "exits", "last_errors", "copies", "graph_rows")
MAPS = (*_FIRST_MAPS, *_LATER_MAPS)
"""Maps that accounting and chains need, in an order in which what explains a loss is read after it."""
THREADS = "threads"
"""Beside the maps: the output of the iterator over living threads, as if each were a row of a map."""
DEVICES = "devices"
"""And what is known of GPUs, which no kernel program tells."""
TABLES = (*_FIRST_MAPS, THREADS, *_LATER_MAPS, DEVICES)
"""By the numbers that files have: what comes is put behind what there was."""

Rows = Mapping[bytes, bytes]
Moved = Mapping[str, Mapping[bytes, bytes | None]]
"""Table -> key -> XOR of the row with what it was; None when it is gone."""

LAYOUT = (
    *(row.size for row in (abi.PROCESS_ROW, abi.INTERVAL_ROW, abi.FEEDING_ROW, abi.CHAIN_ROW, abi.THREAD_ROW)),
    *(key.size for key in (abi.OPERATION_KEY, abi.INTERVAL_KEY, abi.CHAIN_KEY, abi.BLAME_KEY)),
    abi.EXPOSURE.size,
    EXEMPLAR_AT,
)
"""Sizes by which rows of these kernel programs can be told from those of others."""

_THREAD_KEY_BYTES = 8  # process and tid, the first two members of a thread row
_OPERATION_BYTES = SLOTS_AT + abi.OPERATION_SLOTS.size

_HEAD = struct.Struct("<Q?I")  # now_ns, is_whole, changes
_CHANGE = struct.Struct("<BHI")  # number of the table, bytes of the key, of the value
_GONE = 0xFFFFFFFF


class OtherLayout(Exception):
    """The kernel's tables have changed since."""


@dataclass(frozen=True)
class Tick:
    """One reading of the tables. now_ns: CLOCK_MONOTONIC, when it began. is_whole: its rows are all that there were."""

    now_ns: int
    moved: Moved
    is_whole: bool = False

    def encoded(self) -> bytes:
        """As bytes."""
        changes = [
            _CHANGE.pack(TABLES.index(name), len(key), _GONE if value is None else len(value)) + key + (value or b"")
            for name, rows in self.moved.items()
            for key, value in rows.items()
        ]
        return _HEAD.pack(self.now_ns, self.is_whole, len(changes)) + b"".join(changes)

    @classmethod
    def decoded(cls, raw: bytes) -> Tick:
        """From its bytes. Raises ValueError when they are none."""
        moved: dict[str, dict[bytes, bytes | None]] = {}
        try:
            now_ns, is_whole, changes = _HEAD.unpack_from(raw)
            at = _HEAD.size
            for _ in range(changes):
                table, key_bytes, value_bytes = _CHANGE.unpack_from(raw, at)
                at += _CHANGE.size
                is_gone = value_bytes == _GONE
                end = at + key_bytes + (0 if is_gone else value_bytes)
                if end > len(raw):
                    raise ValueError("a row reaches beyond its tick")
                key = raw[at : at + key_bytes]
                moved.setdefault(TABLES[table], {})[key] = None if is_gone else raw[at + key_bytes : end]
                at = end
        except (struct.error, IndexError) as error:
            raise ValueError(f"no tick: {error}") from None
        if at != len(raw):
            raise ValueError("a tick has more bytes than rows")
        return cls(now_ns, moved, is_whole)


def difference(before: Mapping[str, Rows], now: Mapping[str, Rows]) -> Moved:
    """What moved from one reading to the next; tables in which nothing did are left out."""
    moved: dict[str, dict[bytes, bytes | None]] = {}
    for name, rows in now.items():
        known = before.get(name, {})
        if rows is known or rows == known:
            continue
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


def device_rows(states: Iterable[GpuState]) -> Rows:
    """What is known of GPUs as rows by GPU and MIG instance."""
    return {f"{one.gpu}\0{one.mig}".encode(): json.dumps(one[2:], separators=(",", ":")).encode() for one in states}


def device_states(rows: Rows) -> tuple[GpuState, ...]:
    """The states that became these rows. Raises ValueError or TypeError where none did."""
    return tuple(_device_state(key, value) for key, value in rows.items())


def _device_state(key: bytes, value: bytes) -> GpuState:
    gpu, _, mig = key.decode().partition("\0")
    throttled_ns, link, total_bytes, process_bytes = json.loads(value)
    used = {int(tgid): int(used_bytes) for tgid, used_bytes in process_bytes.items()}
    return GpuState(gpu, mig, throttled_ns, link, total_bytes, used)


def without_slots(name: str, value: bytes) -> bytes:
    """A row as it is kept: histograms and exemplars of operations are most of the bytes, and nothing of the accounting."""
    return value[:EXEMPLAR_AT] if name == "operations" else value


class RecordedMap:
    """A MapReader that nothing is changed in: it is what it was, whatever its reader prunes."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}

    @property
    def capacity(self) -> int:
        """As many as there are."""
        return len(self.rows)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once, in no particular order."""
        yield from list(self.rows.items())

    def get(self, key: bytes) -> bytes | None:
        """The value of one key."""
        return self.rows.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Nothing."""

    def delete(self, key: bytes) -> None:
        """Nothing: the recording knows the row as it was before and goes on from there."""


class RowReplay:
    """The tables of a run, as they were at one tick after the other.

    maps: for exporter.kernel.tables.Tables, by name. The histograms of operations are empty.
    """

    def __init__(self, ticks: Iterable[Tick]) -> None:
        self._ticks = ticks
        self._threads: dict[bytes, bytes] = {}
        self._devices: dict[bytes, bytes] = {}
        self._aside = {THREADS: self._threads, DEVICES: self._devices}
        self.maps = {name: RecordedMap() for name in MAPS}

    def iterate(self, program: str) -> bytes:
        """What the kernel's iterator over threads wrote."""
        return b"".join(self._threads.values()) if program == THREADS_READ else b""

    def devices(self) -> tuple[GpuState, ...]:
        """What was known of GPUs."""
        return device_states(self._devices)

    def ticks(self) -> Iterator[int]:
        """Bring the tables to each tick in turn; yields when that was. Raises ValueError where a row goes that never came."""
        for tick in self._ticks:
            if tick.is_whole:
                self._threads.clear()
                self._devices.clear()
                for table in self.maps.values():
                    table.rows.clear()
            for name, changes in tick.moved.items():
                rows = self._aside[name] if name in self._aside else self.maps[name].rows
                for key, change in changes.items():
                    if change is not None:
                        rows[key] = _xor(_padded(name, change), rows.get(key, b""))
                    elif rows.pop(key, None) is None:
                        raise ValueError(f"a row of {name} ends that never began")
            yield tick.now_ns


def _padded(name: str, value: bytes) -> bytes:
    return value.ljust(_OPERATION_BYTES, b"\0") if name == "operations" else value


def _xor(value: bytes, before: bytes) -> bytes:
    before = before[: len(value)].ljust(len(value), b"\0")
    return (int.from_bytes(value, "big") ^ int.from_bytes(before, "big")).to_bytes(len(value), "big")
