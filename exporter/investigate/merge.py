"""Histories of several nodes in one file, which `explain` and `query` read like that of one node.

In: paths of histories, of this version or an older one. Out: a new file, complete or not there. Runs of the exporter get new
numbers in the order of their begin; one that several files have is taken once, so that copies of one history add nothing. Times
stay those of each node's clock.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from exporter.errors import BadInput, NotPossibleHere
from exporter.history.packing import unpacked
from exporter.history.reader import History, opened
from exporter.history.run import Run
from exporter.history.store import INSERT_COLLECTIVE, event_row, new_file
from exporter.investigate.clocks import ClockDifference, clock_differences

FILE_MODE: Final = 0o640

_ALL: Final = 0  # since 1970
_INSERT_RUN: Final = "insert into runs values (?, ?, ?, ?, ?, ?, ?)"
_INSERT_WINDOWS: Final = (
    "insert into windows (run, began_unix_ns, ended_unix_ns, processes) select ?1, ?2, ?3, ?4"
    " where not exists (select 1 from windows where ended_unix_ns = ?3 and run = ?1)"
)
_INSERT_EVENT: Final = (
    "insert into events (run, chain_id, change, at_unix_ns, rank, container, severity, document)"
    " select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8"
    " where not exists (select 1 from events where at_unix_ns = ?4 and run = ?1 and chain_id = ?2 and change = ?3)"
)
_INSERT_STACK: Final = "insert or ignore into stacks values (?, ?, ?)"
_INSERT_MEMBERSHIP: Final = (
    "insert or replace into memberships select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 where not exists"
    " (select 1 from memberships where run = ?1 and process = ?2 and communicator = ?3 and seen_unix_ns > ?9)"
)
_COUNTED: Final = ("runs", "windows", "events")

_RunKey = tuple[int, str]
"""Begin in nanoseconds and version: no two runs have both."""


class MergedCounts(NamedTuple):
    """What the new file holds. intervals: of windows. clocks: how far those of its nodes are apart, as far as that is known."""

    runs: int
    intervals: int
    events: int
    clocks: tuple[ClockDifference, ...] = ()


def merge(sources: Sequence[Path], output: Path) -> MergedCounts:
    """Raises BadInput for an output that cannot be made, and what opened() raises."""
    if os.path.lexists(output):
        raise BadInput(f"{output} exists", remedy="name a new file")
    runs = _numbered(_runs(sources))
    try:
        with tempfile.TemporaryDirectory(prefix=".gpu-stall-exporter-", dir=output.parent) as folder:
            made = Path(folder) / "merged.sqlite"
            counts = _write(made, sources, runs)
            made.chmod(FILE_MODE)
            os.link(made, output)  # fails if a file has appeared there
    except (OSError, sqlite3.Error) as error:
        raise BadInput(f"cannot write {output}: {getattr(error, 'strerror', None) or error}") from None
    return counts


def _runs(sources: Iterable[Path]) -> dict[_RunKey, Run]:
    """Each run once; of copies the one that was seen last."""
    found: dict[_RunKey, Run] = {}
    for path in sources:
        with opened(path) as history:
            for run in history.runs():
                known = found.get(_key(run))
                if known is None or run.seen_unix_ns > known.seen_unix_ns:
                    found[_key(run)] = run
    return found


def _key(run: Run) -> _RunKey:
    return run.began_unix_ns, run.version


def _numbered(runs: Mapping[_RunKey, Run]) -> dict[_RunKey, Run]:
    """The runs with new numbers, oldest first."""
    return {key: runs[key]._replace(id=number) for number, key in enumerate(sorted(runs), 1)}


def _write(path: Path, sources: Iterable[Path], runs: Mapping[_RunKey, Run]) -> MergedCounts:
    with closing(new_file(path)) as connection:
        connection.execute("begin")
        connection.executemany(_INSERT_RUN, runs.values())
        nodes: dict[int, str] = {}
        for source in sources:
            with opened(source) as history:
                _Source(source, history, runs, nodes).copy(connection)
        counts = [connection.execute(f"select count(*) from {table}").fetchone()[0] for table in _COUNTED]  # noqa: S608
        merged = MergedCounts(counts[0], counts[1], counts[2], clock_differences(connection, nodes))
        connection.execute("commit")
    return merged


class _Source:
    """A history that is copied. runs: of all histories. nodes: run -> node; gets those of this history."""

    def __init__(self, path: Path, history: History, runs: Mapping[_RunKey, Run], nodes: dict[int, str]) -> None:
        self._path = path
        self._nodes = nodes
        self._history = history
        own = history.runs()
        self._numbers = {run.id: runs[_key(run)].id for run in own if _key(run) in runs}
        self._seen_unix_ns = max((run.seen_unix_ns for run in own), default=0)

    def copy(self, connection: sqlite3.Connection) -> None:
        """Stacks first: windows without theirs would lose their lines."""
        connection.executemany(_INSERT_STACK, self._stacks())
        connection.executemany(_INSERT_WINDOWS, self._windows())
        connection.executemany(
            _INSERT_EVENT, (event_row(self._number(run), event) for run, event in self._history.events(_ALL))
        )
        connection.executemany(
            INSERT_COLLECTIVE, ((self._number(run), *mark.to_row()) for run, mark in self._history.collectives())
        )
        connection.executemany(
            _INSERT_MEMBERSHIP,
            (
                (self._number(one.run), *one.membership.to_row(), one.seen_unix_ns)
                for one in self._history.memberships(_ALL)
            ),
        )

    def _stacks(self) -> Iterator[tuple[int, int, bytes]]:
        for number, frames in self._history.packed_stacks():
            yield number, self._seen_unix_ns, frames

    def _windows(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Not decoded, but for the first of each run, which names its node: the readers of the new file check them."""
        for run, began_unix_ns, ended_unix_ns, blob in self._history.packed_windows(_ALL):
            if not isinstance(blob, bytes):
                raise NotPossibleHere(f"cannot read the history at {self._path}: windows are not compressed")
            number = self._number(run)
            if number not in self._nodes:
                self._note_node(number, blob)
            yield number, began_unix_ns, ended_unix_ns, blob

    def _note_node(self, number: int, blob: bytes) -> None:
        with suppress(ValueError):  # damage: readers of the new file find it
            for window in unpacked(blob, 0, 0)[:1]:
                self._nodes[number] = window.labels.identity.node

    def _number(self, run: int) -> int:
        try:
            return self._numbers[run]
        except KeyError:
            raise NotPossibleHere(
                f"the history at {self._path} has records of a run that it does not list",
                remedy="if an exporter is writing it, try again; else it is damaged",
            ) from None
