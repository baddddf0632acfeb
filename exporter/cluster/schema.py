"""The tables of a segment, their version, and the statements that fill them.

A segment is never changed to another version: one that an older program has left open is sealed as it is, and readers combine
segments of several versions by the names of columns. A segment of a newer version is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, get_type_hints

from exporter.cluster.records import ChainEventRow, ChainSpanRow, WindowRow

VERSION: Final = 1
MARK: Final = "gpu-stall-exporter cluster"
"""In the table `segment`: what distinguishes a segment from other databases."""

_TYPES: Final[dict[Any, str]] = {
    int: "BIGINT",
    float: "DOUBLE",
    float | None: "DOUBLE",
    str: "VARCHAR",
    tuple[int, ...]: "BIGINT[]",
    tuple[float, ...]: "DOUBLE[]",
    tuple[float | None, ...]: "DOUBLE[]",
    tuple[str, ...]: "VARCHAR[]",
}
"""Type of a field -> of its column."""


class Table(NamedTuple):
    """columns: names and types."""

    name: str
    columns: tuple[tuple[str, str], ...]

    def created(self) -> str:
        columns = ", ".join(
            f"{name} {kind} not null" if name in _KEYS else f"{name} {kind}" for name, kind in self.columns
        )
        return f"create table {self.name} ({columns})"

    def insertion(self) -> str:
        """One parameter for each column: its values in JSON, which cost a third of what bound lists and appended rows cost."""
        values = ", ".join(f"unnest(${number}::json::{kind}[])" for number, (_, kind) in enumerate(self.columns, 1))
        return f"insert into {self.name} select {values}"


_KEYS: Final = ("arrived_unix_ns", "sender", "run", "process", "began_unix_ns", "chain_id", "change")
_COMMON: Final = (("arrived_unix_ns", "BIGINT"), ("sender", "VARCHAR"))
"""First columns of each table: when the store received the row, by its clock, and the name of the token that was used."""


def _table(name: str, row: type[WindowRow | ChainEventRow | ChainSpanRow]) -> Table:
    return Table(name, (*_COMMON, *((field, _TYPES[kind]) for field, kind in get_type_hints(row).items())))


WINDOWS: Final = _table("windows", WindowRow)
EVENTS: Final = _table("chain_events", ChainEventRow)
SPANS: Final = _table("chain_spans", ChainSpanRow)
TABLES: Final = (WINDOWS, EVENTS, SPANS)

_OF_WINDOW: Final = "run, process, began_unix_ns, ended_unix_ns, node, rank, job"
_VIEWS: Final = {
    "lost": "unnest(lost_causes) as cause, unnest(lost_seconds) as lost_seconds",
    "culprits": (
        "unnest(culprit_causes) as cause, unnest(culprit_names) as culprit, unnest(culprit_seconds) as lost_seconds"
    ),
    "thread_time": "unnest(states) as state, unnest(state_seconds) as seconds",
    "communicators": (
        "unnest(communicator_hashes) as communicator, unnest(communicator_ranks) as communicator_rank,"
        " unnest(communicator_sizes) as ranks, unnest(communicator_operations) as operations,"
        " unnest(communicator_lags) as lag_seconds"
    ),
    "calls": (
        "unnest(call_apis) as api, unnest(call_operations) as operation, unnest(call_counts) as calls,"
        " unnest(call_errors) as errors, unnest(call_timed) as timed_calls, unnest(call_seconds) as timed_seconds"
    ),
}
"""The lists of windows as rows."""


def statements() -> list[str]:
    """What makes an empty segment."""
    views = (
        f"create view {name} as select {_OF_WINDOW}, {columns} from windows"  # noqa: S608 - as above
        for name, columns in _VIEWS.items()
    )
    return [
        "create table segment (made_by VARCHAR not null, version INTEGER not null)",
        f"insert into segment values ('{MARK}', {VERSION})",  # noqa: S608 - as above
        *(table.created() for table in TABLES),
        *views,
    ]


def parameters(rows: Iterable[Sequence[Any]]) -> list[str]:
    """For Table.insertion(): rows of values, with those of the first columns."""
    return [json.dumps(column, allow_nan=False) for column in zip(*rows, strict=True)]
