"""Writes the history into one SQLite file of bounded size. Whatever happens to the process or the file, the next start goes on.

In: Reports and cuts of Windows. Out: rows that exporter.history.reader reads. One thread uses a Store.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from exporter.chains.event import ChainEvent
from exporter.history.file_guard import LockedFile, Unusable
from exporter.history.window import Window

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x67707573  # "gpus"; tells our files from other databases
MAGIC: Final = b"SQLite format 3\0"

_FRACTIONS: Final = b"\x40\x20\x20"  # in the header of every sound file; https://www.sqlite.org/fileformat2.html

MIN_BYTES: Final = 2 << 20
_PAGE_BYTES: Final = 4096
_WAL_SHARE: Final = 8  # one part in so many of what the files may take is for the write-ahead log
_INDEX_BYTES: Final = 64 << 10
_PRUNE_TO: Final = 0.9
_PRUNE_STEPS: Final = 20
_BUSY_MILLISECONDS: Final = 2000

# A cut holds the windows of all processes, compressed together: they name the same operations.
_SCHEMA: Final = """
create table runs (
    id integer primary key, began_unix_ns integer not null, seen_unix_ns integer not null, ended_unix_ns integer,
    version text not null, has_chains integer not null, cut_seconds real not null);
create table cuts (
    id integer primary key, run integer not null, began_unix_ns integer not null, ended_unix_ns integer not null,
    windows blob not null);
create index cuts_by_end on cuts (ended_unix_ns);
create table reports (
    id integer primary key, run integer not null, chain_id text not null, change text not null, at_unix_ns integer not null,
    rank text not null, container text not null, severity text not null, document text not null);
create index reports_by_time on reports (at_unix_ns);
"""


class CorruptError(Exception):
    """The file is no sound database."""


class SizeLimits(NamedTuple):
    """pages_bytes: of the file; wal_bytes: of the log beside it. Both together, and the index of the log, are what is allowed."""

    pages_bytes: int
    wal_bytes: int

    @classmethod
    def of(cls, max_bytes: int) -> SizeLimits:
        """max_bytes: for all files."""
        wal_bytes = max(max_bytes // _WAL_SHARE, MIN_BYTES // 4)
        return cls(max_bytes - wal_bytes - _INDEX_BYTES, wal_bytes)


class Cut(NamedTuple):
    """windows: of the processes that did something; a cut without one says that the exporter was there."""

    began_unix_ns: int
    ended_unix_ns: int
    windows: Sequence[Window]


class Store:
    """An open file. Raises Unusable for one that is not ours to write, CorruptError for one that is broken.

    Methods raise CorruptError as well, and sqlite3.OperationalError for what may pass: no room, no answer from the disk.
    """

    def __init__(
        self, place: LockedFile, max_bytes: int, *, began_unix_ns: int, version: str, has_chains: bool
    ) -> None:
        self._place = place
        self._limits = SizeLimits.of(max_bytes)
        _refuse_foreign(place.path)
        place.ensure_file()
        self._identity = place.identity()
        try:
            self._connection = _connect(place.path)
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
            raise Unusable(f"{self._place.path} is of a newer version of this program and left alone", remedy=_RENAME)
        if known == 0:
            execute("pragma auto_vacuum = incremental")
            execute(f"pragma application_id = {APPLICATION_ID}")
        execute("pragma journal_mode = wal")
        execute("pragma synchronous = normal")
        execute("pragma cache_size = -512")
        execute(f"pragma journal_size_limit = {self._limits.wal_bytes}")
        execute(f"pragma wal_autocheckpoint = {self._limits.wal_bytes // _PAGE_BYTES // 2}")
        if known == 0:
            # One transaction: a process that is killed leaves the file as it was.
            self._connection.executescript(f"begin;{_SCHEMA}pragma user_version = {SCHEMA_VERSION};commit;")
        (broken,) = execute("pragma quick_check(1)").fetchone()
        if broken != "ok":
            raise CorruptError(broken)
        execute(f"pragma max_page_count = {self._limits.pages_bytes // _PAGE_BYTES}")

    def _begin_run(self, began_unix_ns: int, version: str, *, has_chains: bool) -> int:
        with self._connection as transaction:
            cursor = transaction.execute(
                "insert into runs (began_unix_ns, seen_unix_ns, version, has_chains, cut_seconds) values (?, ?, ?, ?, 0)",
                (began_unix_ns, began_unix_ns, version, has_chains),
            )
        assert cursor.lastrowid is not None  # noqa: S101 - a row was inserted
        return cursor.lastrowid

    def size_bytes(self) -> int:
        """Of all files."""
        return self._place.size_bytes()

    def is_in_place(self) -> bool:
        """Whether the file still has its name: one that was removed or replaced is written in vain."""
        return self._place.is_same_file(self._identity)

    def is_log_full(self) -> bool:
        """Whether somebody reads for so long that what was written cannot be moved into the file."""
        return self._place.wal_bytes() > self._limits.wal_bytes

    def write(self, reports: Iterable[ChainEvent], cuts: Iterable[Cut], now_unix_ns: int) -> None:
        """All of it or nothing."""
        try:
            with self._connection as transaction:
                transaction.executemany(INSERT_REPORT, (report_row(self._run, report) for report in reports))
                for cut in cuts:
                    self._write_cut(transaction, cut)
                transaction.execute("update runs set seen_unix_ns = ? where id = ?", (now_unix_ns, self._run))
            # Whoever may only read sees as far as a reader or a writer began last: so that nobody waits for the next cut.
            self._connection.execute("select id from runs limit 1").fetchone()
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error

    def _write_cut(self, transaction: sqlite3.Connection, cut: Cut) -> None:
        transaction.execute(
            "insert into cuts (run, began_unix_ns, ended_unix_ns, windows) values (?, ?, ?, ?)",
            (self._run, cut.began_unix_ns, cut.ended_unix_ns, packed(cut.windows)),
        )
        transaction.execute(
            "update runs set cut_seconds = ? where id = ?",
            ((cut.ended_unix_ns - cut.began_unix_ns) / 1e9, self._run),
        )

    def prune(self, before_unix_ns: int, keep: Collection[str]) -> None:
        """Everything that ended before goes, and as much of the oldest as is too much.

        keep: chains that are open; what was said of them stays.
        """
        try:
            self._delete(before_unix_ns, keep)
            for _ in range(_PRUNE_STEPS):
                if self._used_bytes() <= self._limits.pages_bytes * _PRUNE_TO:
                    break
                self._delete_oldest(keep)
            if self._pages("page_count") * _PAGE_BYTES > self._limits.pages_bytes:  # of an earlier, larger limit
                # A page at every step, which only executescript() goes on with: there are no rows to ask for.
                self._connection.executescript("pragma incremental_vacuum")
                self.checkpoint()
        except sqlite3.DatabaseError as error:
            raise _translated(error) from error

    def _used_bytes(self) -> int:
        return (self._pages("page_count") - self._pages("freelist_count")) * _PAGE_BYTES

    def _pages(self, name: str) -> int:
        return int(self._connection.execute(f"pragma {name}").fetchone()[0])

    def _delete_oldest(self, keep: Collection[str]) -> None:
        """A tenth of the cuts, and what was said in their time; once there are none, a tenth of what was said."""
        for table, column in (("cuts", "ended_unix_ns"), ("reports", "at_unix_ns")):
            found = self._connection.execute(
                f"select {column} from {table} order by {column}"  # noqa: S608 - names of our own
                f" limit 1 offset (select count(*) / 10 from {table})"
            ).fetchone()
            if found is not None:
                self._delete(found[0] + 1, keep)
                return

    def _delete(self, before_unix_ns: int, keep: Collection[str]) -> None:
        with self._connection as transaction:
            transaction.execute("delete from cuts where ended_unix_ns < ?", (before_unix_ns,))
            transaction.execute(
                f"delete from reports where at_unix_ns < ? and chain_id not in ({','.join('?' * len(keep))})",  # noqa: S608
                (before_unix_ns, *keep),
            )
            transaction.execute(
                "delete from runs where seen_unix_ns < ? and id <> ?"
                " and not exists (select 1 from reports where reports.run = runs.id)",
                (before_unix_ns, self._run),
            )

    def checkpoint(self) -> None:
        """Move what was written into the file, as far as readers allow it."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()

    def close(self, ended_unix_ns: int | None = None) -> None:
        """ended_unix_ns: the exporter ends as it should. The log is moved into the file, which then stands alone."""
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


INSERT_REPORT: Final = (
    "insert into reports (run, chain_id, change, at_unix_ns, rank, container, severity, document)"
    " values (?, ?, ?, ?, ?, ?, ?, ?)"
)


def report_row(run: int, report: ChainEvent) -> tuple[object, ...]:
    """For INSERT_REPORT."""
    identity = report.identity
    return (
        run,
        report.chain_id,
        report.change.value,
        report.at_unix_ns,
        identity.rank if identity else "",
        identity.container if identity else "",
        report.severity.name.lower(),
        json.dumps(report.to_document(), separators=(",", ":")),
    )


_RENAME = "give this one another --history.path"


def packed(windows: Iterable[Window]) -> bytes:
    """As they are stored."""
    documents = [window.to_document() for window in windows]
    return zlib.compress(json.dumps(documents, separators=(",", ":")).encode())


def unpacked(blob: bytes, began_unix_ns: int, ended_unix_ns: int) -> list[Window]:
    """What packed() was given. Raises ValueError, TypeError or zlib.error for anything else."""
    return [Window.from_document(one, began_unix_ns, ended_unix_ns) for one in json.loads(zlib.decompress(blob))]


def _connect(path: Path) -> sqlite3.Connection:
    # The thread that opens it is the one that uses it, but for the end.
    return sqlite3.connect(path, timeout=_BUSY_MILLISECONDS / 1000, check_same_thread=False)


def _refuse_foreign(path: Path) -> None:
    """Of a database the header is looked at without opening it, which might change it."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from error
    if not header.startswith(MAGIC) or len(header) < 100 or header[21:24] != _FRACTIONS:
        return  # empty, or broken: SQLite says which
    version, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if version > SCHEMA_VERSION and application == APPLICATION_ID:
        raise Unusable(f"{path} is of a newer version of this program and left alone", remedy=_RENAME)
    if application != APPLICATION_ID and (application or version or int.from_bytes(header[28:32], "big") > 1):
        raise Unusable(f"{path} is a database of another program and left alone", remedy=_RENAME)


_BROKEN = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"}
# Of a sound file of ours they say that its tables are not those we made.
_BROKEN_TEXTS = ("no such table", "no such column", "has no column")


def _translated(error: sqlite3.DatabaseError) -> Exception:
    name = getattr(error, "sqlite_errorname", "").split("_")
    is_broken = "_".join(name[:2]) in _BROKEN or any(text in str(error) for text in _BROKEN_TEXTS)
    if is_broken:
        return CorruptError(str(error))
    return error if isinstance(error, sqlite3.OperationalError) else sqlite3.OperationalError(str(error))
