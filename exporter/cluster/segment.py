"""One DuckDB file of the store. The only module that uses duckdb.

In: rows. Out: a file that is complete after each commit: DuckDB writes a commit to the log beside the file and waits for
fdatasync(2) before it returns, so it survives the end of the process and of the machine. After an error it is not known whether
the last commit is in the file, and DuckDB refuses further statements: the file has to be opened again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import duckdb

from exporter.cluster.errors import DamagedSegment, StoreUnavailable, Unstorable
from exporter.cluster.folder import LOG_SUFFIX, sync_folder
from exporter.cluster.schema import EVENTS, MARK, SPANS, VERSION, WINDOWS, parameters, statements
from exporter.errors import NotPossibleHere
from exporter.text.printable import printable

MEMORY: Final = "96MB"
"""For DuckDB's buffers; a row group of windows takes some of it."""
_LOG_BYTES_MAX: Final = "16MB"
"""When the log is longer, the next commit moves it into the file."""
_FETCHED_ROWS: Final = 10_000
_SEALED_MODE: Final = 0o440
_ERROR_CHARACTERS: Final = 300

_CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": "1",
    "memory_limit": MEMORY,
    "checkpoint_threshold": _LOG_BYTES_MAX,
    "temp_directory": "",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
}

Row = Sequence[Any]
"""The values of a row, with those of the first columns of schema.py."""


_EVENT_IDS: Final = (
    "select chain_id, change, observed_unix_ns from chain_events"
    " where $1::varchar[] is null or list_contains($1, chain_id)"
)
_SPAN_IDS: Final = (
    "select chain_id, ended_unix_ns from chain_spans where $1::varchar[] is null or list_contains($1, chain_id)"
)
_OF_DISK: Final = (duckdb.IOException, duckdb.FatalException, duckdb.OutOfMemoryException, OSError)


class Segment:
    """An open file, which one thread uses. Created if there is none.

    Raises DamagedSegment, NotPossibleHere for one of a newer program, and StoreUnavailable when it cannot be read or written.
    is_sealed: it is only read. version: of its tables. Rows can be added to those of this version only.
    """

    def __init__(self, path: Path, *, is_sealed: bool = False) -> None:
        self.path = path
        self._log_inode = 0
        is_new = not is_sealed and not path.exists()
        try:
            self._connection = duckdb.connect(path, read_only=is_sealed, config=_CONFIG)
        except duckdb.Error as error:
            raise DamagedSegment(f"cannot open {path}: {_reason(error)}") from error
        try:
            if is_new:
                self._create()
            self.version = self._read_version()
        except BaseException:
            self.close()
            raise

    def add(self, windows: Sequence[Row], events: Sequence[Row], spans: Sequence[Row]) -> None:
        """All rows or none; they are on the disk when it returns. Raises Unstorable for rows that the tables cannot hold."""
        with self._errors_translated():
            self._connection.begin()
            try:
                for table, rows in ((WINDOWS, windows), (EVENTS, events), (SPANS, spans)):
                    if rows:
                        self._connection.execute(table.insertion(), parameters(rows))
            except _OF_DISK:
                raise
            except (duckdb.Error, ValueError) as error:
                self._connection.rollback()
                raise Unstorable(f"cannot store rows: {_reason(error)}") from error
            self._connection.commit()
            self._sync_name_of_log()

    def window_ids(self) -> Iterator[tuple[str, str, int, list[int]]]:
        """(sender, run, process, begins of its windows)."""
        return self._fetched(
            "select sender, run, process, list(began_unix_ns) from windows group by sender, run, process"
        )

    def window_span(self) -> tuple[int, int] | None:
        """The earliest begin of a window and the latest one. None without windows."""
        (found,) = self._fetched("select min(began_unix_ns), max(began_unix_ns) from windows")
        return None if found[0] is None else found

    def windows_of(self, nodes: Sequence[str], first_unix_ns: int, last_unix_ns: int) -> Iterator[tuple[str, int, int]]:
        """(node, process, begin) of windows that began in a span, both ends included."""
        return self._fetched(
            "select node, process, began_unix_ns from windows where began_unix_ns between ? and ? and list_contains(?, node)",
            first_unix_ns,
            last_unix_ns,
            nodes,
        )

    def event_ids(self, chains: Sequence[str] | None = None) -> Iterator[tuple[str, str, int]]:
        """(chain, change, when it was detected). chains: None for all."""
        return self._fetched(_EVENT_IDS, chains)

    def span_ids(self, chains: Sequence[str] | None = None) -> Iterator[tuple[str, int]]:
        """(chain, its end). chains: None for all."""
        return self._fetched(_SPAN_IDS, chains)

    def _fetched(self, query: str, *values: Any) -> Iterator[Any]:
        with self._errors_translated():
            cursor = self._connection.execute(query, values)
            while some := cursor.fetchmany(_FETCHED_ROWS):
                yield from some

    def size_bytes(self) -> int:
        """The file and its log."""
        with self._errors_translated():
            log = self._log()
            return self.path.stat().st_size + (log.stat().st_size if log.exists() else 0)

    def copy_to(self, target: Path) -> None:
        """Makes a file as of the last commit, without a log, which other processes can open."""
        with self._errors_translated():
            self._connection.execute("checkpoint")
            with self.path.open("rb") as file, target.open("xb") as copy:
                shutil.copyfileobj(file, copy)

    def seal(self, path: Path) -> None:
        """Closes it and gives it its last name. It does not change after that."""
        with self._errors_translated():
            self._connection.execute("checkpoint")
            self._connection.close()
            if self._log().exists():
                raise StoreUnavailable(f"{self.path} has a log after it was closed")
            self.path.chmod(_SEALED_MODE)
            self.path.rename(path)
            sync_folder(path.parent)

    def close(self) -> None:
        """It can be opened again, with all that was committed."""
        with suppress(duckdb.Error):
            self._connection.close()

    def _create(self) -> None:
        with self._errors_translated():
            self._connection.begin()
            for statement in statements():
                self._connection.execute(statement)
            self._connection.commit()
            self._sync_name_of_log()

    def _read_version(self) -> int:
        try:
            found = self._connection.execute("select made_by, version from segment").fetchall()
        except duckdb.FatalException as error:
            raise StoreUnavailable(f"cannot read {self.path}: {_reason(error)}") from error
        except duckdb.Error as error:
            raise DamagedSegment(f"{self.path} is not a segment of a store: {_reason(error)}") from error
        if len(found) != 1 or found[0][0] != MARK or not isinstance(found[0][1], int):
            raise DamagedSegment(f"{self.path} is not a segment of a store")
        version: int = found[0][1]
        if version > VERSION:
            raise NotPossibleHere(
                f"{self.path} was written by a newer version of this program",
                remedy="use that version, or another --store.path",
            )
        return version

    def _log(self) -> Path:
        return self.path.with_name(self.path.name + LOG_SUFFIX)

    def _sync_name_of_log(self) -> None:
        """The log is a new file after each checkpoint: its name has to be on the disk as well as its content."""
        log = self._log()
        inode = log.stat().st_ino if log.exists() else 0
        if inode != self._log_inode:
            sync_folder(self.path.parent)
            self._log_inode = inode

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, OSError) as error:
            raise StoreUnavailable(f"cannot write {self.path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = str(getattr(error, "strerror", None) or error)
    return printable(" ".join(text.split())[:_ERROR_CHARACTERS])
