"""The history as one SQLite file of bounded size, which survives a crash of the process at any moment.

In: chain events and windows. Out: rows for exporter.history.reader. One thread uses a Store.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.files import content
from exporter.history.file_guard import SIDE_SUFFIXES, LockedFile, Unusable
from exporter.history.packing import packed
from exporter.history.stack_table import StackTable
from exporter.history.window_batch import WindowBatch

SCHEMA_VERSION: Final = 5
APPLICATION_ID: Final = 0x67707573  # "gpus"; marks our files among other databases
MAGIC: Final = b"SQLite format 3\0"
HEADER_BYTES: Final = 100
JOURNAL_SUFFIXES: Final = (*SIDE_SUFFIXES, "-journal")
"""Files beside the database that SQLite may open."""

_FRACTIONS: Final = b"\x40\x20\x20"  # in the header of every valid file; https://www.sqlite.org/fileformat2.html

MIN_BYTES: Final = 2 << 20
_PAGE_BYTES: Final = 4096
_WAL_SHARE: Final = 8  # one eighth of the limit is for the write-ahead log
_INDEX_BYTES: Final = 64 << 10
_PRUNE_TO: Final = 0.9
_PRUNE_STEPS: Final = 20
_BUSY_MILLISECONDS: Final = 2000

# A row of `windows` holds the windows of all processes, compressed together: they name the same operations.
_SCHEMA_1: Final = """
create table runs (
    id integer primary key, began_unix_ns integer not null, seen_unix_ns integer not null, ended_unix_ns integer,
    version text not null, has_chains integer not null, window_seconds real not null);
create table windows (
    id integer primary key, run integer not null, began_unix_ns integer not null, ended_unix_ns integer not null,
    processes blob not null);
create index windows_by_end on windows (ended_unix_ns);
create table events (
    id integer primary key, run integer not null, chain_id text not null, change text not null, at_unix_ns integer not null,
    rank text not null, container text not null, severity text not null, document text not null);
create index events_by_time on events (at_unix_ns);
"""
# Call sites of windows have the number of their stack, which is here once, compressed.
_SCHEMA_2: Final = """
create table stacks (id integer primary key, seen_unix_ns integer not null, frames blob not null);
"""
_SCHEMA_3: Final = """
create table collectives (
    run integer not null, communicator integer not null, number integer not null, at_unix_ns integer not null,
    primary key (run, communicator, number)) without rowid;
"""
# The last state of each, so that it does not grow with time.
_SCHEMA_4: Final = """
create table memberships (
    run integer not null, process integer not null, communicator integer not null, rank integer not null,
    ranks integer not null, collectives integer not null, entered_unix_ns integer not null, labels text not null,
    seen_unix_ns integer not null, primary key (run, process, communicator)) without rowid;
"""
# No table: events of the kind `updated`, the last one of each open chain, which older versions cannot read.
_SCHEMA_5: Final = ""
_ADDED: Final = (_SCHEMA_1, _SCHEMA_2, _SCHEMA_3, _SCHEMA_4, _SCHEMA_5)
"""What each version added. A file of an older one gets what it lacks."""


class CorruptError(Exception):
    """The file is not a valid database."""


class SizeLimits(NamedTuple):
    """pages_bytes: of the file. wal_bytes: of the write-ahead log beside it. Together with the log's index they are the limit."""

    pages_bytes: int
    wal_bytes: int

    @classmethod
    def of(cls, max_bytes: int) -> SizeLimits:
        """max_bytes: for all files together."""
        wal_bytes = max(max_bytes // _WAL_SHARE, MIN_BYTES // 4)
        return cls(max_bytes - wal_bytes - _INDEX_BYTES, wal_bytes)


class Store:
    """An open file. Raises Unusable for a file of another program or version, CorruptError for a damaged one.

    Methods raise CorruptError, too, and sqlite3.OperationalError for problems that may pass, such as a full disk.
    """

    def __init__(self, file: LockedFile, max_bytes: int, *, began_unix_ns: int, version: str, has_chains: bool) -> None:
        self._file = file
        self._limits = SizeLimits.of(max_bytes)
        self._stacks = StackTable(self._limits.pages_bytes)
        self._updates: dict[str, int] = {}  # chain -> the row of its last update
        _refuse_foreign(file.path)
        file.ensure_file()
        self._identity = file.identity()
        try:
            self._connection = _connect(file.path)
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error
        try:
            self._prepare()
            self._run = self._begin_run(began_unix_ns, version, has_chains=has_chains)
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise _translated(error) from error
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute(f"pragma busy_timeout = {_BUSY_MILLISECONDS}")
        (known,) = execute("pragma user_version").fetchone()
        if known > SCHEMA_VERSION:
            raise Unusable(
                f"{self._file.path} was written by a newer version of this program and is not changed", remedy=_RENAME
            )
        if known == 0:
            execute("pragma auto_vacuum = incremental")
            execute(f"pragma application_id = {APPLICATION_ID}")
        execute("pragma journal_mode = wal")
        execute("pragma synchronous = normal")
        execute("pragma cache_size = -512")
        execute(f"pragma journal_size_limit = {self._limits.wal_bytes}")
        execute(f"pragma wal_autocheckpoint = {self._limits.wal_bytes // _PAGE_BYTES // 2}")
        if known < SCHEMA_VERSION:
            # In one transaction, so that a killed process leaves an empty file, or one of the older version.
            added = "".join(_ADDED[known:])
            self._connection.executescript(f"begin;{added}pragma user_version = {SCHEMA_VERSION};commit;")
        (result,) = execute("pragma quick_check(1)").fetchone()
        if result != "ok":
            raise CorruptError(result)
        execute(f"pragma max_page_count = {self._limits.pages_bytes // _PAGE_BYTES}")

    def _begin_run(self, began_unix_ns: int, version: str, *, has_chains: bool) -> int:
        with self._connection as transaction:
            cursor = transaction.execute(
                "insert into runs (began_unix_ns, seen_unix_ns, version, has_chains, window_seconds) values (?, ?, ?, ?, 0)",
                (began_unix_ns, began_unix_ns, version, has_chains),
            )
        assert cursor.lastrowid is not None  # noqa: S101 - a row was inserted
        return cursor.lastrowid

    def size_bytes(self) -> int:
        """All files together."""
        return self._file.size_bytes()

    def is_in_place(self) -> bool:
        """Whether the open file still is the one at the path: it may have been removed or replaced."""
        return self._file.is_same_file(self._identity)

    def is_wal_full(self) -> bool:
        """Whether a long-running reader keeps the write-ahead log from being moved into the file."""
        return self._file.wal_bytes() > self._limits.wal_bytes

    def write(self, events: Iterable[ChainEvent], batches: Iterable[WindowBatch], now_unix_ns: int) -> None:
        """In one transaction."""
        updates = dict(
            self._updates
        )  # as they are once the transaction is done: rolled back, its rows may be others later
        try:
            with self._connection as transaction:
                for event in events:
                    _write_event(transaction, self._run, event, updates)
                for batch in batches:
                    self._write_batch(transaction, batch)
                transaction.execute("update runs set seen_unix_ns = ? where id = ?", (now_unix_ns, self._run))
            # Readers without write permission see no more than the last transaction that began: this one shows them the new rows.
            self._connection.execute("select id from runs limit 1").fetchone()
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error
        else:
            self._updates = updates

    def _write_batch(self, transaction: sqlite3.Connection, batch: WindowBatch) -> None:
        transaction.execute(
            "insert into windows (run, began_unix_ns, ended_unix_ns, processes) values (?, ?, ?, ?)",
            (self._run, batch.began_unix_ns, batch.ended_unix_ns, packed(batch.windows)),
        )
        self._stacks.write(transaction, batch.windows, batch.ended_unix_ns)
        transaction.executemany(INSERT_COLLECTIVE, ((self._run, *mark.to_row()) for mark in batch.collectives))
        transaction.executemany(
            INSERT_MEMBERSHIP, ((self._run, *one.to_row(), batch.ended_unix_ns) for one in batch.memberships)
        )
        transaction.execute(
            "update runs set window_seconds = ? where id = ?",
            ((batch.ended_unix_ns - batch.began_unix_ns) / 1e9, self._run),
        )

    def prune(self, before_unix_ns: int, keep: Collection[str]) -> None:
        """Deletes everything that ended before, and the oldest rows until the size is within its limit.

        keep: ids of open chains, whose events stay.
        """
        try:
            self._delete(before_unix_ns, keep)
            for _ in range(_PRUNE_STEPS):
                if self._used_bytes() <= self._limits.pages_bytes * _PRUNE_TO:
                    break
                self._delete_oldest(keep)
            if self._pages("page_count") * _PAGE_BYTES > self._limits.pages_bytes:  # the limit was larger before
                # SQLite frees one page at each step; execute() would stop after the first, since it returns no rows.
                self._connection.executescript("pragma incremental_vacuum")
                self.checkpoint()
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error

    def _used_bytes(self) -> int:
        return (self._pages("page_count") - self._pages("freelist_count")) * _PAGE_BYTES

    def _pages(self, name: str) -> int:
        return int(self._connection.execute(f"pragma {name}").fetchone()[0])

    def _delete_oldest(self, keep: Collection[str]) -> None:
        """Deletes a tenth of the windows, and the events of their time; without windows, a tenth of the events."""
        for table, column in (("windows", "ended_unix_ns"), ("events", "at_unix_ns")):
            found = self._connection.execute(
                f"select {column} from {table} order by {column}"  # noqa: S608 - names of our own
                f" limit 1 offset (select count(*) / 10 from {table})"
            ).fetchone()
            if found is not None:
                self._delete(found[0] + 1, keep)
                return

    def _delete(self, before_unix_ns: int, keep: Collection[str]) -> None:
        with self._connection as transaction:
            transaction.execute("delete from windows where ended_unix_ns < ?", (before_unix_ns,))
            transaction.execute("delete from collectives where at_unix_ns < ?", (before_unix_ns,))
            transaction.execute("delete from memberships where seen_unix_ns < ?", (before_unix_ns,))
            self._stacks.prune(transaction, before_unix_ns)
            transaction.execute(
                f"delete from events where at_unix_ns < ? and chain_id not in ({','.join('?' * len(keep))})",  # noqa: S608
                (before_unix_ns, *keep),
            )
            transaction.execute(
                "delete from runs where seen_unix_ns < ? and id <> ?"
                " and not exists (select 1 from events where events.run = runs.id)",
                (before_unix_ns, self._run),
            )

    def checkpoint(self) -> None:
        """Moves the write-ahead log into the file, as far as readers allow it."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()

    def close(self, ended_unix_ns: int | None = None) -> None:
        """ended_unix_ns: when the exporter stopped; None if the run goes on. The write-ahead log is moved into the file."""
        try:
            if ended_unix_ns is not None:
                with self._connection as transaction:
                    transaction.execute(
                        "update runs set seen_unix_ns = ?1, ended_unix_ns = ?1 where id = ?2",
                        (ended_unix_ns, self._run),
                    )
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error
        finally:
            self._connection.close()


def _write_event(transaction: sqlite3.Connection, run: int, event: ChainEvent, updates: dict[str, int]) -> None:
    """An update takes the place of the one before, and whatever comes next takes its place. updates: chain -> its row."""
    row = updates.pop(event.chain_id, None)
    if row is not None:
        transaction.execute("delete from events where id = ? and change = ?", (row, Change.UPDATED.value))
    cursor = transaction.execute(INSERT_EVENT, event_row(run, event))
    if event.change is Change.UPDATED and cursor.lastrowid is not None:
        updates[event.chain_id] = cursor.lastrowid


INSERT_EVENT: Final = (
    "insert into events (run, chain_id, change, at_unix_ns, rank, container, severity, document)"
    " values (?, ?, ?, ?, ?, ?, ?, ?)"
)


INSERT_COLLECTIVE: Final = (
    "insert or ignore into collectives (run, communicator, number, at_unix_ns) values (?, ?, ?, ?)"
)

INSERT_MEMBERSHIP: Final = (
    "insert or replace into memberships (run, process, communicator, rank, ranks, collectives, entered_unix_ns, labels,"
    " seen_unix_ns) values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def new_file(path: Path) -> sqlite3.Connection:
    """An empty history at a path where nothing is, to be filled in one transaction. Until it is closed it is not safe on disk."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in (
        "auto_vacuum = incremental",
        f"application_id = {APPLICATION_ID}",
        "journal_mode = off",
        "synchronous = off",
    ):
        connection.execute(f"pragma {pragma}")
    connection.executescript(f"{''.join(_ADDED)}pragma user_version = {SCHEMA_VERSION};")
    return connection


def event_row(run: int, event: ChainEvent) -> tuple[object, ...]:
    """Values for INSERT_EVENT."""
    identity = event.identity
    return (
        run,
        event.chain_id,
        event.change.value,
        event.at_unix_ns,
        identity.rank if identity else "",
        identity.container if identity else "",
        event.severity.name.lower(),
        json.dumps(event.to_document(), separators=(",", ":")),
    )


_RENAME = "set another --history.path"


def read_header(path: Path) -> bytes:
    """The first bytes of a regular file. Raises OSError."""
    fd = content.open_regular(path)
    try:
        return content.read_up_to(fd, HEADER_BYTES)
    finally:
        os.close(fd)


def _connect(path: Path) -> sqlite3.Connection:
    # Opened and used by one thread, but closed by another.
    return sqlite3.connect(path, timeout=_BUSY_MILLISECONDS / 1000, check_same_thread=False)


def _refuse_foreign(path: Path) -> None:
    """Reads the header only: opening a database might change it."""
    try:
        header = read_header(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from error
    if not header.startswith(MAGIC) or len(header) < HEADER_BYTES or header[21:24] != _FRACTIONS:
        return  # empty or damaged: SQLite finds out
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if version > SCHEMA_VERSION and application == APPLICATION_ID:
        raise Unusable(f"{path} was written by a newer version of this program and is not changed", remedy=_RENAME)
    if application != APPLICATION_ID and (application or version or int.from_bytes(header[28:32], "big") > 1):
        raise Unusable(f"{path} is a database of another program and is not changed", remedy=_RENAME)


_CORRUPT = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"}
# The file is a valid database, but not with our tables.
_CORRUPT_TEXTS = ("no such table", "no such column", "has no column")


def _translated(error: sqlite3.DatabaseError) -> Exception:
    name = getattr(error, "sqlite_errorname", "").split("_")
    is_corrupt = "_".join(name[:2]) in _CORRUPT or any(text in str(error) for text in _CORRUPT_TEXTS)
    if is_corrupt:
        return CorruptError(str(error))
    return error if isinstance(error, sqlite3.OperationalError) else sqlite3.OperationalError(str(error))
