"""What each owner of processes and control groups holds of the tables, and was refused.

Partners in C: bpf/lib/share.bpf.h, bpf/lib/group_share.bpf.h.

In: MapReaders by map name, and a way to run the program process_share, which alone may change sums of living processes. Out: rows
by process number and by place of an owner. The kernel enforces the shares; user space says which processes have one owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import ShareRequest, ShareTable
from exporter.kernel.layout import Layout
from exporter.kernel.maps import MapReader

TABLES: Final[tuple[str, ...]] = tuple(table.name.lower() for table in ShareTable)
"""Maps whose rows are shared by owner, in the order of ShareTable. An owner alone may have half of each."""

OF_GROUPS: Final[tuple[str, ...]] = TABLES[abi.SHARE_OF_GROUPS :]
"""Those of TABLES whose rows belong to control groups. The others' belong to processes."""

ONE_EACH: Final = (
    *("process_numbers", "process_shares", "graph_rows", "cadence", "outputs", "page_allocations", "last_errors"),
)
"""Maps with at most one row for each process, so that the share of `processes` holds for them as well."""

PLACES: Final = range(abi.SHARE_NEWCOMERS, abi.SHARE_OWNERS)
"""Places of owners that user space has named. The others are chosen by the kernel."""

Request = Callable[..., None]
"""Runs process_share with these arguments."""

_REFUSED = abi.OWNER_ROW.part("refused")
_REFUSED_AT = abi.OWNER_ROW.offset("refused")
_TOTALS_KEY = abi.NUMBER.pack(0)
_PLACE_KEY = Layout(key="Q")


class ProcessShare(NamedTuple):
    """Value of `process_shares`. place: of its owner. uid: of the user who answers for it. used: without OF_GROUPS.

    group: id of its cgroup at its first call. user_key: for Shares.expect(), of the user within the uppermost group.
    """

    place: int
    uid: int
    group: int
    user_key: int
    used: tuple[int, ...]


class OwnerRow(NamedTuple):
    """Value of `owners`: rows held and rows refused, by ShareTable. user: who made the control group that was refused last."""

    used: tuple[int, ...]
    refused: tuple[int, ...]
    user: int


def no_request(*_arguments: int) -> None:
    """Without a kernel there are no shares."""


class Shares:
    """Reads and moves shares."""

    def __init__(self, maps: Mapping[str, MapReader], request: Request = no_request) -> None:
        self._maps = maps
        self._request = request

    def of_process(self, process: int) -> ProcessShare | None:
        """What a process holds; None if it has ended."""
        table = self._maps.get("process_shares")
        value = table.get(abi.NUMBER.pack(process)) if table else None
        if value is None:
            return None
        place, uid, group, user_key, *used, _ = abi.PROCESS_SHARE.unpack(value)
        return ProcessShare(place, uid, group, user_key, tuple(used))

    def of_owner(self, place: int) -> OwnerRow:
        """What the owner at a place holds."""
        table = self._maps.get("owners")
        value = table.get(abi.NUMBER.pack(place)) if table else None
        return _owner_row(value) if value else OwnerRow((0,) * len(TABLES), (0,) * len(TABLES), 0)

    def refused(self) -> dict[int, OwnerRow]:
        """Place -> row, of owners that were refused any row."""
        table = self._maps.get("owners")
        rows = table.items() if table else ()
        return {
            abi.NUMBER.unpack(key)[0]: _owner_row(value)
            for key, value in rows
            if any(value[_REFUSED_AT : _REFUSED_AT + _REFUSED.size])
        }

    def clear_owner(self, place: int) -> None:
        """The place is free for another owner: no process has this one any more."""
        self._request(ShareRequest.CLEAR, place)

    def delete_of_group(self, table: ShareTable, key: bytes) -> None:
        """Delete a row of a control group, and give it back to the owner that it was booked to. table: one of OF_GROUPS."""
        rows = self._maps[table.name.lower()]
        value = rows.get(key)
        if value is None:
            return
        (place,) = abi.NUMBER.unpack_from(value)
        rows.delete(key)
        self._request(ShareRequest.GROUP, place, table)

    def assign(self, process: int, place: int) -> None:
        """The process belongs to the owner at this place: all that it holds, and will hold."""
        self._request(ShareRequest.OWNER, process, place)

    def release(self, rows: Iterable[int], table: ShareTable) -> None:
        """Rows of processes that live on were deleted. rows: the process of each."""
        for process in rows:
            self._request(ShareRequest.RELEASE, process, table, 1)

    def end(self, processes: Iterable[int]) -> None:
        """These have ended; from now on no row of theirs is created. Call before their rows are deleted."""
        for process in processes:
            self._request(ShareRequest.END, process)

    def expect(self, key: int, place: int | None) -> None:
        """New processes in a cgroup, or of a user in one, belong to the owner at this place at once. None: no longer."""
        table = self._maps.get("owner_places")
        if table is None:
            return
        if place is None:
            table.delete(_PLACE_KEY.pack(key))
        else:
            table.put(_PLACE_KEY.pack(key), abi.NUMBER.pack(place))

    def totals(self) -> dict[str, tuple[int, int]]:
        """Map name -> rows of all owners, and rows that it has room for."""
        table = self._maps.get("share_totals")
        value = table.get(_TOTALS_KEY) if table else None
        if value is None:
            return {}
        row = abi.SHARE_TOTALS.unpack(value)
        return {name: (row[at], row[len(TABLES) + at]) for at, name in enumerate(TABLES) if row[len(TABLES) + at]}


def _owner_row(value: bytes) -> OwnerRow:
    row = abi.OWNER_ROW.unpack(value)
    return OwnerRow(row[: len(TABLES)], row[len(TABLES) : 2 * len(TABLES)], row[2 * len(TABLES)])


def write_capacities(maps: Mapping[str, MapReader]) -> None:
    """Give the programs the sizes of the tables; nothing is booked yet."""
    table = maps.get("share_totals")
    if table is not None:
        capacities = (maps[name].capacity if name in maps else 0 for name in TABLES)
        table.put(_TOTALS_KEY, abi.SHARE_TOTALS.pack(*(0,) * len(TABLES), *capacities))
