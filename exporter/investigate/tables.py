"""The views that a statement names, filled from a history for a span of time.

In: an open History, names of views, a span. Out: rows in a database in memory, which holds nothing that is not decoded, checked
and printable: what a statement may name is never the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from exporter.history.reader import History
from exporter.history.recorded_chains import recorded_chains
from exporter.history.run import RecordedEvent, Run
from exporter.history.window_sum import Part
from exporter.investigate import chain_rows
from exporter.investigate.interval_windows import Detail, TooMuch, interval_windows
from exporter.investigate.schema import VIEW_OF, VIEWS
from exporter.investigate.window_rows import INTERVAL_VIEWS, Row, WorkloadTotal

HEAP_BYTES: Final = 48 << 20
"""Limit of what SQLite takes in this process, for the views and for what a statement sorts or groups."""

_PARTS: Final = {"operations": Part.OPERATIONS, "operation_buckets": Part.OPERATIONS, "call_sites": Part.CALL_SITES}
_CHAIN_VIEWS: Final = frozenset(("chains", "chain_events", "stacks"))


class QuerySpan(NamedTuple):
    """resolution_ns: length of an interval; None for one interval, the whole span. is_past: leave out what came later."""

    since_unix_ns: int
    now_unix_ns: int
    resolution_ns: int | None
    is_past: bool = False

    def holds(self, unix_ns: int) -> bool:
        return not self.is_past or unix_ns <= self.now_unix_ns


def in_memory() -> sqlite3.Connection:
    """An empty database of bounded size, without a file."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(f"pragma hard_heap_limit = {HEAP_BYTES}")
    connection.execute("pragma temp_store = memory")
    return connection


def empty_views() -> sqlite3.Connection:
    """One with all views, and without rows."""
    connection = in_memory()
    for view in VIEWS:
        connection.execute(view.definition)
    return connection


def fill(connection: sqlite3.Connection, history: History, names: Collection[str], span: QuerySpan) -> None:
    """names: of the views that are needed. Raises what History raises, and TooMuch."""
    with history.errors_translated():
        connection.execute("begin")
        runs = history.runs()
        if span.is_past:
            runs = [run.as_of(span.now_unix_ns) for run in runs if span.holds(run.began_unix_ns)]
        if "node" in names:
            _insert(connection, "node", chain_rows.run_rows(runs, span.now_unix_ns))
        if _CHAIN_VIEWS & set(names):
            events = [one for one in history.events(span.since_unix_ns) if span.holds(one.event.at_unix_ns)]
            _fill_chains(connection, names, runs, events, span)
        if {"workloads", *INTERVAL_VIEWS} & set(names):
            _fill_windows(connection, history, names, span)
        connection.execute("commit")


def _fill_chains(
    connection: sqlite3.Connection,
    names: Collection[str],
    runs: list[Run],
    events: list[RecordedEvent],
    span: QuerySpan,
) -> None:
    live_run = runs[-1].id if runs and runs[-1].is_live(span.now_unix_ns) else None
    known = recorded_chains(events, {run.id: run for run in runs}, live_run, span.now_unix_ns)
    chains = [chain for chain in known if chain.known_until_unix_ns >= span.since_unix_ns]
    shown = {chain.last.chain_id for chain in chains}
    events = [one for one in events if one.event.chain_id in shown]
    for name, rows in (
        ("chains", chain_rows.chain_rows(chains)),
        ("chain_events", chain_rows.event_rows(events)),
        ("stacks", chain_rows.stack_rows(events)),
    ):
        if name in names:
            _insert(connection, name, rows)


def _fill_windows(connection: sqlite3.Connection, history: History, names: Collection[str], span: QuerySpan) -> None:
    totals: dict[tuple[int, int], WorkloadTotal] = {}
    detail = Detail(span.resolution_ns, frozenset(part for name, part in _PARTS.items() if name in names))
    packed = takewhile(lambda one: span.holds(one.ended_unix_ns), history.packed_windows(span.since_unix_ns))
    for one in interval_windows(packed, detail, history.stack):
        total = totals.get((one.run, one.window.process))
        if total is None:
            total = totals[one.run, one.window.process] = WorkloadTotal(len(totals) + 1, one)
        total.add(one)
        for name, rows_of in INTERVAL_VIEWS.items():
            if name in names:
                _insert(connection, name, rows_of(one, total.workload.key))
    if "workloads" in names:
        _insert(connection, "workloads", (total.row() for total in totals.values()))


def _insert(connection: sqlite3.Connection, name: str, rows: Iterable[Row]) -> None:
    marks = ", ".join("?" * len(VIEW_OF[name].columns))
    try:
        connection.executemany(f"insert into {name} values ({marks})", rows)  # noqa: S608 - names of our own
    except MemoryError:
        raise TooMuch from None
