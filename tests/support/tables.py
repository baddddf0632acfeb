"""Kernel tables without a kernel: FakeMap stands where a KernelMap does, FakeTables packs rows into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exporter.kernel import abi
from exporter.kernel.operations import NUMBERS
from exporter.units import slot_of

_SLOTS_AT = abi.OPERATION_SUMS.size + abi.EXEMPLAR.size


class FakeMap:
    """A MapReader over a dict. times_read: how often its entries were gone through."""

    def __init__(self, capacity: int = 64) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.times_read = 0
        self._capacity = capacity

    @property
    def capacity(self) -> int:
        """max_entries."""
        return self._capacity

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once, in no particular order."""
        self.times_read += 1
        yield from list(self.rows.items())

    def get(self, key: bytes) -> bytes | None:
        """The value of one key."""
        return self.rows.get(key)

    def delete(self, key: bytes) -> None:
        """Remove one key; it may be gone already."""
        self.rows.pop(key, None)


class FakeTables:
    """Builds the maps of exporter.kernel.rows.Tables call by call. Calls add up, as they do in the kernel."""

    def __init__(self) -> None:
        names = ("processes", "operations", "errors", "communicators", "allocations", "process_numbers", "losses")
        self.maps: dict[str, FakeMap] = {name: FakeMap() for name in names}

    def process(
        self,
        number: int,
        *,
        tgid: int = 100,
        comm: bytes = b"python",
        start_ns: int = 47_110_000_000,
        cgroup_id: int = 7,
        copied_bytes: Mapping[abi.Copy, int] | None = None,
        allocated_bytes: int = 0,
        freed_bytes: int = 0,
        unknown_frees: int = 0,
        live_allocations: int = 0,
    ) -> None:
        """A row of `processes`; replaces the one before. The default start is tick 4711, as in host/process_tree.py."""
        copied = [(copied_bytes or {}).get(direction, 0) for direction in abi.Copy]
        self.maps["processes"].rows[abi.NUMBER.pack(number)] = abi.PROCESS_ROW.pack(
            tgid, 0, start_ns, cgroup_id, *copied, allocated_bytes, freed_bytes, unknown_frees, live_allocations, comm
        )

    def call(
        self,
        process: int,
        operation: str,
        *,
        durations_ns: Sequence[int] = (),
        untimed: int = 0,
        moved_bytes: int = 0,
        communicator: int = 0,
    ) -> None:
        """Calls that returned: one per duration, and `untimed` ones, which a runtime call made."""
        key = abi.OPERATION_KEY.pack(process, NUMBERS[operation], communicator)
        before = self.maps["operations"].rows.get(key, bytes(_SLOTS_AT + abi.OPERATION_SLOTS.size))
        untimed_before, total_ns, bytes_before = abi.OPERATION_SUMS.unpack_from(before)
        slots = list(abi.OPERATION_SLOTS.unpack_from(before, _SLOTS_AT))
        for duration_ns in durations_ns:
            slots[slot_of(duration_ns)] += 1
        sums = abi.OPERATION_SUMS.pack(
            untimed_before + untimed, total_ns + sum(durations_ns), bytes_before + moved_bytes
        )
        exemplar = before[abi.OPERATION_SUMS.size : _SLOTS_AT]
        self.maps["operations"].rows[key] = sums + exemplar + abi.OPERATION_SLOTS.pack(*slots)

    def slowest(
        self,
        process: int,
        operation: str,
        *,
        duration_ns: int,
        ended_ns: int,
        tid: int = 4711,
        tgid: int = 4700,
        communicator: int = 0,
        is_being_written: bool = False,
    ) -> None:
        """The exemplar of an operation that has been called. is_being_written: by a program, at this very moment."""
        key = abi.OPERATION_KEY.pack(process, NUMBERS[operation], communicator)
        row = self.maps["operations"].rows[key]
        exemplar = abi.EXEMPLAR.pack(2, tid, duration_ns, ended_ns, tgid, 3 if is_being_written else 2)
        self.maps["operations"].rows[key] = row[: abi.OPERATION_SUMS.size] + exemplar + row[_SLOTS_AT:]

    def error(self, process: int, operation: str, *, code: int, count: int = 1) -> None:
        """Calls that failed with `code`."""
        key = abi.ERROR_KEY.pack(process, NUMBERS[operation], 0, code, 0)
        (before,) = abi.COUNT.unpack(self.maps["errors"].rows.get(key, bytes(abi.COUNT.size)))
        self.maps["errors"].rows[key] = abi.COUNT.pack(before + count)

    def communicator(
        self,
        process: int,
        *,
        address: int = 0xC0,
        digest: int = 0xABCDEF,
        created_ns: int = 1,
        rank: int = 0,
        ranks: int = 2,
        ordinal: int = 1,
    ) -> None:
        """A communicator alive. digest 0, rank -1, ranks 0: the making of it was not seen."""
        key = abi.COMMUNICATOR_KEY.pack(process, 0, address)
        self.maps["communicators"].rows[key] = abi.COMMUNICATOR_ROW.pack(digest, created_ns, rank, ranks, ordinal, 0)

    def allocation(self, process: int, *, address: int, size_bytes: int) -> None:
        """Memory allocated and not yet freed."""
        self.maps["allocations"].rows[abi.ALLOCATION_KEY.pack(process, 0, address)] = abi.COUNT.pack(size_bytes)

    def loss(self, program: abi.LossProgram, reason: abi.LossReason, count: int) -> None:
        """What a program could not record so far."""
        index = program * len(abi.LossReason) + reason
        self.maps["losses"].rows[abi.NUMBER.pack(index)] = abi.COUNT.pack(count)
