"""Reads the history without root and without changing it, even while the exporter writes it or after it was killed.

In: the path. Out: runs, chain events and windows, as of one moment. Raises NotPossibleHere for a file that cannot be read.
"""

from __future__ import annotations

import grp
import json
import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exporter.chains.event import ChainEvent
from exporter.errors import NotPossibleHere
from exporter.history.file_guard import SIDE_SUFFIXES
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.store import APPLICATION_ID, MAGIC, SCHEMA_VERSION, unpacked

_TIMEOUT_SECONDS = 2.0


class History:
    """An open history, as of the moment when it was opened."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    def runs(self) -> list[Run]:
        """Oldest first."""
        rows = self._rows(
            "select id, began_unix_ns, seen_unix_ns, ended_unix_ns, version, has_chains, window_seconds from runs order by id"
        )
        return [Run(*row)._replace(has_chains=bool(row[5])) for row in rows]

    def events(self, since_unix_ns: int) -> list[RecordedEvent]:
        """All events of the chains that have an event since then or are not resolved."""
        rows = self._rows(
            "select run, document from events where chain_id in"
            " (select chain_id from events where at_unix_ns >= ?"
            "  union select chain_id from events group by chain_id having max(change = 'resolved') = 0) order by id",
            since_unix_ns,
        )
        with self._errors_translated():
            return [RecordedEvent(run, ChainEvent.from_document(json.loads(document))) for run, document in rows]

    def windows(self, since_unix_ns: int) -> Iterator[RecordedWindows]:
        """Oldest first. An iterator, since a day of windows takes much memory."""
        rows = self._rows(
            "select run, began_unix_ns, ended_unix_ns, processes from windows where ended_unix_ns > ? order by ended_unix_ns",
            since_unix_ns,
        )
        for run, began_unix_ns, ended_unix_ns, blob in rows:
            with self._errors_translated():
                windows = unpacked(blob, began_unix_ns, ended_unix_ns)
            yield RecordedWindows(run, began_unix_ns, ended_unix_ns, windows)

    def _rows(self, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
        with self._errors_translated():
            yield from self._connection.execute(query, values)

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, zlib.error, ValueError, TypeError, KeyError) as error:
            raise _damaged(self._path, error) from error


@contextmanager
def opened(path: Path) -> Iterator[History]:
    """The history at a path, open while the block lasts."""
    _check_file(path)
    with tempfile.TemporaryDirectory(prefix="gpu-stall-exporter-") as folder:
        connection = _connected(path, Path(folder))
        try:
            yield History(path, connection)
        finally:
            connection.close()


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        raise NotPossibleHere(
            f"no history at {path}",
            remedy="start `gpu-stall-exporter run` as root, or set --history.path to the file that it writes",
        ) from None
    except PermissionError:
        raise NotPossibleHere(f"no permission to read {path}", remedy=_who_may_read(path)) from None
    except OSError as error:
        raise NotPossibleHere(f"cannot read {path}: {error.strerror}") from error
    if not header:
        raise NotPossibleHere(
            f"the history at {path} is empty", remedy="`run` writes to it within a few seconds: try again"
        )
    application = int.from_bytes(header[68:72], "big")
    if not header.startswith(MAGIC) or len(header) < 100 or application != APPLICATION_ID:
        raise NotPossibleHere(
            f"{path} is not a history of this program", remedy="set --history.path to the file that `run` writes"
        )


def _who_may_read(path: Path) -> str:
    """By the group of the file, or of its directory if the file cannot be reached."""
    for one in (path, path.parent):
        try:
            group = grp.getgrgid(one.stat().st_gid).gr_name
        except (OSError, KeyError):
            continue
        return f"run it as root or as a member of the group {group}"
    return "run it as root"


def _connected(path: Path, folder: Path) -> sqlite3.Connection:
    """A connection in a read transaction: to the file, or to a copy if SQLite refuses a reader without write permission.

    While the exporter runs, it keeps the index of the write-ahead log up to date, which readers can use. After it has stopped
    there is no log, and the file does not change. After it was killed, its log is left.
    """
    attempts = (_read_only, _copied) if _has_wal(path) else (_immutable, _read_only, _copied)
    failure: sqlite3.DatabaseError | OSError | None = None
    for attempt in attempts:
        connection: sqlite3.Connection | None = None
        try:
            connection = attempt(path, folder)
            connection.isolation_level = None
            connection.execute("begin")
            (version,) = connection.execute("pragma user_version").fetchone()
            connection.execute("select count(*) from runs").fetchone()
        except (sqlite3.DatabaseError, OSError) as error:
            failure = error
            if connection is not None:
                connection.close()
            continue
        if version > SCHEMA_VERSION:
            connection.close()
            raise NotPossibleHere(
                f"{path} was written by a newer version of this program", remedy="use that version's `explain`"
            )
        return connection
    assert failure is not None  # noqa: S101 - every attempt failed
    raise _damaged(path, failure)


def _has_wal(path: Path) -> bool:
    return path.with_name(path.name + SIDE_SUFFIXES[0]).exists()


def _immutable(path: Path, _folder: Path) -> sqlite3.Connection:
    return _connection(path, "immutable=1")


def _read_only(path: Path, _folder: Path) -> sqlite3.Connection:
    return _connection(path, "mode=ro")


def _copied(path: Path, folder: Path) -> sqlite3.Connection:
    copy = folder / path.name
    shutil.copyfile(path, copy)
    if _has_wal(path):
        shutil.copyfile(path.with_name(path.name + SIDE_SUFFIXES[0]), copy.with_name(copy.name + SIDE_SUFFIXES[0]))
    os.chmod(copy, 0o600)  # noqa: PTH101 - a copy has the mode of a new file
    return _connection(copy, "mode=rw")


def _connection(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_TIMEOUT_SECONDS)


def _damaged(path: Path, error: Exception) -> NotPossibleHere:
    return NotPossibleHere(
        f"cannot read the history at {path}: {error}",
        remedy="if it is damaged, the exporter replaces it when it next reads the damaged part",
    )
