"""Reads the history, without root and without changing anything, also while the exporter writes it or after it was killed.

In: the path. Out: Runs, what was said of chains, and windows, all of one moment. Raises NotPossibleHere, in one line, for what
cannot be read.
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
from exporter.history.file_guard import BESIDE
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.store import APPLICATION_ID, MAGIC, SCHEMA_VERSION, unpacked

_TIMEOUT_SECONDS = 2.0


class History:
    """An open history; all that it tells is of the moment at which it was opened."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection

    def runs(self) -> list[Run]:
        """Oldest first."""
        rows = self._rows(
            "select id, began_unix_ns, seen_unix_ns, ended_unix_ns, version, has_chains, cut_seconds from runs order by id"
        )
        return [Run(*row)._replace(has_chains=bool(row[5])) for row in rows]

    def told(self, since_unix_ns: int) -> list[RecordedEvent]:
        """Everything that was said of the chains that something has been said of since then, or that are not resolved."""
        rows = self._rows(
            "select run, document from reports where chain_id in"
            " (select chain_id from reports where at_unix_ns >= ?"
            "  union select chain_id from reports group by chain_id having max(change = 'resolved') = 0) order by id",
            since_unix_ns,
        )
        with self._refusing_damage():
            return [RecordedEvent(run, ChainEvent.from_document(json.loads(document))) for run, document in rows]

    def seen(self, since_unix_ns: int) -> Iterator[RecordedWindows]:
        """Oldest first, one after the other: a day of them does not fit into little memory."""
        rows = self._rows(
            "select run, began_unix_ns, ended_unix_ns, windows from cuts where ended_unix_ns > ? order by ended_unix_ns",
            since_unix_ns,
        )
        for run, began_unix_ns, ended_unix_ns, blob in rows:
            with self._refusing_damage():
                windows = unpacked(blob, began_unix_ns, ended_unix_ns)
            yield RecordedWindows(run, began_unix_ns, ended_unix_ns, windows)

    def _rows(self, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
        with self._refusing_damage():
            yield from self._connection.execute(query, values)

    @contextmanager
    def _refusing_damage(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, zlib.error, ValueError, TypeError, KeyError) as error:
            raise _damaged(self._path, error) from error


@contextmanager
def opened(path: Path) -> Iterator[History]:
    """The history at a path, while the block lasts."""
    _must_be_ours(path)
    with tempfile.TemporaryDirectory(prefix="gpu-stall-exporter-") as folder:
        connection = _connected(path, Path(folder))
        try:
            yield History(path, connection)
        finally:
            connection.close()


def _must_be_ours(path: Path) -> None:
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        raise NotPossibleHere(
            f"there is no history at {path}",
            remedy="start `gpu-stall-exporter run`, as root, or name the file that it was given in --history.path",
        ) from None
    except PermissionError:
        raise NotPossibleHere(f"you may not read {path}", remedy=_who_may(path)) from None
    except OSError as error:
        raise NotPossibleHere(f"cannot read {path}: {error.strerror}") from error
    if not header:
        raise NotPossibleHere(f"the history at {path} is empty", remedy="`run` begins it within a few seconds")
    application = int.from_bytes(header[68:72], "big")
    if not header.startswith(MAGIC) or len(header) < 100 or application != APPLICATION_ID:
        raise NotPossibleHere(f"{path} is no history of this program", remedy="name its file in --history.path")


def _who_may(path: Path) -> str:
    """Of the file, or of the directory where that hides it."""
    for place in (path, path.parent):
        try:
            group = grp.getgrgid(place.stat().st_gid).gr_name
        except (OSError, KeyError):
            continue
        return f"ask as root, or as a member of the group {group}"
    return "ask as root"


def _connected(path: Path, folder: Path) -> sqlite3.Connection:
    """A connection in a read transaction: directly, or where a reader without rights is refused, to a copy.

    While the exporter runs it keeps the index of its log up to date, and whoever may read the files can use it. When it has ended
    there is no log, and nobody who changes the file. When it was killed, its log is left.
    """
    attempts = (_direct, _copied) if _has_log(path) else (_alone, _direct, _copied)
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
                f"{path} is of a newer version of this program", remedy="use the `explain` of that one"
            )
        return connection
    assert failure is not None  # noqa: S101 - every attempt failed
    raise _damaged(path, failure)


def _has_log(path: Path) -> bool:
    return path.with_name(path.name + BESIDE[0]).exists()


def _alone(path: Path, _folder: Path) -> sqlite3.Connection:
    return _connection(path, "immutable=1")


def _direct(path: Path, _folder: Path) -> sqlite3.Connection:
    return _connection(path, "mode=ro")


def _copied(path: Path, folder: Path) -> sqlite3.Connection:
    copy = folder / path.name
    shutil.copyfile(path, copy)
    if _has_log(path):
        shutil.copyfile(path.with_name(path.name + BESIDE[0]), copy.with_name(copy.name + BESIDE[0]))
    os.chmod(copy, 0o600)  # noqa: PTH101 - a copy has the mode of a new file
    return _connection(copy, "mode=rw")


def _connection(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_TIMEOUT_SECONDS)


def _damaged(path: Path, error: Exception) -> NotPossibleHere:
    return NotPossibleHere(
        f"the history at {path} cannot be read: {error}",
        remedy="where it is damaged, the exporter begins a new one when it meets the damage",
    )
