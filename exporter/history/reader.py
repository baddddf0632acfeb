"""Reads the history without root and without changing it, even while the exporter writes it or after it was killed.

In: the path of a file of unknown origin. Out: runs, chain events and windows, as of one moment. Raises
NotPossibleHere for a file that cannot be read, that is not what the exporter writes, or that takes too long or too much memory.
"""

from __future__ import annotations

import grp
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from exporter.chains.event import TIME_NS_MAX, ChainEvent
from exporter.errors import NotPossibleHere
from exporter.files import content, temporary, trust
from exporter.files.budget import ReadBudget, Unfinished
from exporter.files.temporary import NoFolder, temporary_folder
from exporter.history import database
from exporter.history.collective_mark import CollectiveMark
from exporter.history.membership import Membership, RecordedMembership
from exporter.history.packing import packed_documents, unpacked, unpacked_documents
from exporter.history.run import PackedStack, PackedWindows, RecordedEvent, RecordedWindows, Run
from exporter.history.scope import EVERYTHING, Scope
from exporter.history.stack_table import refuse_other_number, stack_of
from exporter.history.store import APPLICATION_ID, HEADER_BYTES, JOURNAL_SUFFIXES, MAGIC, SCHEMA_VERSION, read_header
from exporter.python.call_site import OTHER_STACKS, STACK_NUMBER_MAX, CallStack
from exporter.text import untrusted

RUNS_MAX: Final = 20_000
EVENTS_MAX: Final = 10_000
EVENTS_BYTES_MAX: Final = 16 << 20
STACKS_MAX: Final = 200
"""Remembered at a time: those of some windows. A stack takes some KiB, and one of a hostile file a hundred."""
_EVENT_BYTES_MAX: Final = 1 << 20
_COPY_BYTES_MAX: Final = 1 << 30
_ERROR_CHARACTERS: Final = 200


class History:
    """An open history, as of the moment when it was opened. scope: nothing of other processes leaves it."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, budget: ReadBudget, iterators: ExitStack, scope: Scope
    ) -> None:
        (version,) = connection.execute("pragma user_version").fetchone()
        self._has_stacks = version >= database.WITH_STACKS
        self._has_collectives = version >= database.WITH_COLLECTIVES
        self._has_memberships = version >= database.WITH_MEMBERSHIPS
        self._stacks: dict[int, CallStack] = {}
        self._path = path
        self._connection = connection
        self._budget = budget
        self._iterators = iterators
        self._scope = scope

    def runs(self) -> list[Run]:
        """Oldest first."""
        with self.errors_translated(), closing(self._rows(_RUNS, RUNS_MAX)) as rows:
            found = [_run_of(row) for row in rows]
        if len(found) >= RUNS_MAX:
            raise self._too_much("runs of the exporter")
        return found

    def events(self, since_unix_ns: int) -> list[RecordedEvent]:
        """All events of the chains that have an event since then or are not resolved."""
        return self._events(_EVENTS, since_unix_ns)

    def events_of_chains(self, prefix: str) -> list[RecordedEvent]:
        """All events of the chains whose ids begin so. prefix: of hexadecimal digits."""
        return self._events(_EVENTS_OF_CHAINS, prefix, f"{prefix}g")

    def _events(self, query: str, *values: int | str) -> list[RecordedEvent]:
        found: list[RecordedEvent] = []
        with self.errors_translated():
            for run, text in self._event_texts(query, *values):
                event = ChainEvent.from_document(untrusted.json_value(text, _EVENT_BYTES_MAX))
                if self._scope.sees(event.identity):
                    found.append(RecordedEvent(untrusted.count(run), event))
        return found

    def _event_texts(self, query: str, *values: int | str) -> list[tuple[Any, str | bytes]]:
        """(run, document). Too many are refused here: to decode some of them first takes seconds."""
        found: list[tuple[Any, str | bytes]] = []
        left_bytes = EVENTS_BYTES_MAX
        with closing(self._rows(query, *values, EVENTS_MAX)) as rows:
            for run, document in rows:
                text = document if isinstance(document, str | bytes) else ""
                left_bytes -= len(text)
                if left_bytes < 0 or len(found) == EVENTS_MAX - 1:
                    raise self._too_much("chain events")
                found.append((run, text))
        return found

    def latest_unix_ns(self) -> int:
        """The time of the latest event or window; 0 without any."""
        with self.errors_translated(), closing(self._rows(_LATEST)) as rows:
            return max(untrusted.count(one or 0, TIME_NS_MAX) for one in next(rows))

    def windows(self, since_unix_ns: int) -> Iterator[RecordedWindows]:
        """Oldest first. An iterator, since a day of windows takes much memory; it is closed with the history."""
        return self._iterators.enter_context(closing(self._windows(since_unix_ns)))

    def _windows(self, since_unix_ns: int) -> Generator[RecordedWindows, None, None]:
        for run, began_unix_ns, ended_unix_ns, blob in self.packed_windows(since_unix_ns):
            with self.errors_translated():
                windows = unpacked(blob, began_unix_ns, ended_unix_ns, self.stack)
            yield RecordedWindows(run, began_unix_ns, ended_unix_ns, windows)

    def packed_windows(self, since_unix_ns: int) -> Iterator[PackedWindows]:
        """The same as the file holds them, for unpacked_documents()."""
        return self._iterators.enter_context(closing(self._packed_windows(since_unix_ns)))

    def _packed_windows(self, since_unix_ns: int) -> Generator[PackedWindows, None, None]:
        with self.errors_translated(), closing(self._rows(_WINDOWS, since_unix_ns)) as rows:
            for run, began, ended, blob in rows:
                yield PackedWindows(untrusted.count(run), *_span_of(began, ended), self._seen(blob))

    def _seen(self, blob: Any) -> Any:
        """The windows of an interval without those of other processes."""
        return blob if self._scope.is_all else packed_documents(self._scope.seen_of(unpacked_documents(blob)))

    def packed_stacks(self) -> Iterator[PackedStack]:
        """All stacks of call sites as the file holds them, each with the number of its frames. For a reader who sees all."""
        assert self._scope.is_all  # noqa: S101 - nothing says whose stack it is
        return self._iterators.enter_context(closing(self._packed_stacks()))

    def _packed_stacks(self) -> Generator[PackedStack, None, None]:
        if self._has_stacks:
            with self.errors_translated(), closing(self._rows(_STACKS)) as rows:
                for number, frames in rows:
                    known = untrusted.count(number, STACK_NUMBER_MAX)
                    yield PackedStack(known, refuse_other_number(known, frames))

    def collectives(self) -> Iterator[tuple[int, CollectiveMark]]:
        """(run, mark), for a reader who sees all."""
        assert self._scope.is_all  # noqa: S101 - nothing says whose communicator it is
        return self._iterators.enter_context(closing(self._collectives()))

    def _collectives(self) -> Generator[tuple[int, CollectiveMark], None, None]:
        if self._has_collectives:
            with self.errors_translated(), closing(self._rows(_COLLECTIVES)) as rows:
                for run, *mark in rows:
                    yield untrusted.count(run), CollectiveMark.from_row(*mark)

    def memberships(self, since_unix_ns: int) -> Iterator[RecordedMembership]:
        """Those that processes have had since then, in the order of runs and processes."""
        return self._iterators.enter_context(closing(self._memberships(since_unix_ns)))

    def _memberships(self, since_unix_ns: int) -> Generator[RecordedMembership, None, None]:
        if self._has_memberships:
            with self.errors_translated(), closing(self._rows(_MEMBERSHIPS, since_unix_ns)) as rows:
                for run, seen, *values in rows:
                    known = Membership.from_row(*values)
                    if self._scope.sees(known.labels.identity):
                        yield RecordedMembership(untrusted.count(run), untrusted.count(seen, TIME_NS_MAX), known)

    def stack(self, number: int) -> CallStack:
        """The stack of a call site. Raises ValueError for a damaged one."""
        known = self._stacks.get(number)
        if known is None:
            rows = self._connection.execute(_STACK, (number,)).fetchall() if self._has_stacks else ()
            known = stack_of(rows[0][0]) if rows else OTHER_STACKS
            if len(self._stacks) >= STACKS_MAX:
                self._stacks.clear()
            self._stacks[number] = known
        return known

    def _rows(self, query: str, *values: int | str) -> Generator[tuple[Any, ...], None, None]:
        for row in self._connection.execute(query, values):
            self._budget.check()
            yield row

    def _too_much(self, what: str) -> NotPossibleHere:
        return NotPossibleHere(
            f"the history at {self._path} holds more {what} than can be explained at once",
            remedy="use a smaller --since",
        )

    @contextmanager
    def errors_translated(self) -> Iterator[None]:
        """What the block finds wrong in the file becomes NotPossibleHere."""
        try:
            yield
        except (sqlite3.Error, ValueError, MemoryError) as error:
            raise _damaged(self._path, error) from error
        except Unfinished as error:
            raise _unfinished(self._path, error) from None


_RUNS: Final = (
    "select id, began_unix_ns, seen_unix_ns, ended_unix_ns, version, has_chains, window_seconds"
    " from runs order by id limit ?"
)
_EVENTS: Final = (
    "select run, document from events where chain_id in"
    " (select chain_id from events where at_unix_ns >= ?"
    "  union select chain_id from events group by chain_id having max(change = 'resolved') = 0) order by id limit ?"
)
_EVENTS_OF_CHAINS: Final = "select run, document from events where chain_id >= ? and chain_id < ? order by id limit ?"
_WINDOWS: Final = (
    "select run, began_unix_ns, ended_unix_ns, processes from windows where ended_unix_ns > ? order by ended_unix_ns"
)

_LATEST: Final = "select (select max(at_unix_ns) from events), (select max(ended_unix_ns) from windows)"
_COLLECTIVES: Final = "select run, communicator, number, at_unix_ns from collectives"
_MEMBERSHIPS: Final = (
    "select run, seen_unix_ns, process, communicator, rank, ranks, collectives, entered_unix_ns, labels"
    " from memberships where seen_unix_ns >= ? order by run, process, communicator"
)
_STACKS: Final = "select id, frames from stacks"
_STACK: Final = "select frames from stacks where id = ?"


def _run_of(row: tuple[Any, ...]) -> Run:
    number, began, seen, ended, version, has_chains, window_seconds = row
    return Run(
        untrusted.count(number),
        untrusted.count(began, TIME_NS_MAX),
        untrusted.count(seen, TIME_NS_MAX),
        None if ended is None else untrusted.count(ended, TIME_NS_MAX),
        untrusted.text(version),
        untrusted.switch(has_chains),
        untrusted.number(window_seconds),
    )


def _span_of(began: Any, ended: Any) -> tuple[int, int]:
    ended_unix_ns = untrusted.count(ended, TIME_NS_MAX)
    return untrusted.count(began, ended_unix_ns), ended_unix_ns


@contextmanager
def opened(
    path: Path, budget: ReadBudget | None = None, *, effort: float = 1.0, scope: Scope = EVERYTHING
) -> Iterator[History]:
    """The history at a path, open while the block lasts. budget: time for all that is read, by default as the size allows.

    effort: how many times as long as reading it takes what is done with it; that much more time is allowed. scope: whose records.
    """
    size_bytes = _check_file(path)
    budget = budget or ReadBudget.for_size(size_bytes, effort=effort)
    with (
        ExitStack() as copies,
        closing(_connected(path, copies, budget)) as connection,
        ExitStack() as iterators,
    ):
        yield History(path, connection, budget, iterators, scope)


def _check_file(path: Path) -> int:
    """The size of the file and those beside it, all of which are regular: SQLite would wait for a pipe."""
    try:
        header = read_header(path)
        size_bytes = os.lstat(path).st_size + sum(map(_size_beside, _beside(path)))
    except FileNotFoundError:
        raise NotPossibleHere(
            f"no history at {path}",
            remedy="start `gpu-stall-exporter run` as root, or set --history.path to the file that it writes",
        ) from None
    except PermissionError:
        raise NotPossibleHere(f"no permission to read {path}", remedy=_who_may_read(path)) from None
    except (OSError, ValueError) as error:
        raise NotPossibleHere(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if not header:
        raise NotPossibleHere(
            f"the history at {path} is empty", remedy="`run` writes to it within a few seconds: try again"
        )
    application = int.from_bytes(header[68:72], "big")
    if not header.startswith(MAGIC) or len(header) < HEADER_BYTES or application != APPLICATION_ID:
        raise NotPossibleHere(
            f"{path} is not a history of this program", remedy="set --history.path to the file that `run` writes"
        )
    return size_bytes


def _beside(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in JOURNAL_SUFFIXES]


def _size_beside(path: Path) -> int:
    """0 if there is none. Raises OSError if it is not a regular file."""
    try:
        fd = content.open_regular(path)
    except (FileNotFoundError, PermissionError):  # SQLite may not read it either
        return 0
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _who_may_read(path: Path) -> str:
    """By the group of the file, or of its directory if the file cannot be reached."""
    for one in (path, path.parent):
        try:
            group = grp.getgrgid(one.stat().st_gid).gr_name
        except (OSError, KeyError):
            continue
        return f"run it as root or as a member of the group {group}"
    return "run it as root"


def _connected(path: Path, copies: ExitStack, budget: ReadBudget) -> sqlite3.Connection:
    """A connection in a read transaction: to the file, or to a copy. copies: has the folder of the copy.

    While the exporter runs, it keeps the index of the write-ahead log up to date, which readers can use. After it has stopped
    there is no log, and the file does not change. After it was killed, its log is left. A copy is read if SQLite refuses a reader
    without write permission, and if another user could replace the file or what is beside it at any moment.
    """
    failure: Exception | None = None
    for attempt in _attempts(path):
        connection: sqlite3.Connection | None = None
        try:
            connection = attempt(path, copies)
            database.restrict(connection, budget)
            connection.execute("begin")
            (version,) = connection.execute("pragma user_version").fetchone()
            database.refuse_other_schema(connection, version)
        except (sqlite3.Error, ValueError, MemoryError, OSError, Unfinished) as error:
            failure = error
            if connection is not None:
                connection.close()
            if isinstance(error, Unfinished):
                break
            continue
        if version > SCHEMA_VERSION:
            connection.close()
            raise NotPossibleHere(
                f"{path} was written by a newer version of this program", remedy="use that version's `explain`"
            )
        return connection
    assert failure is not None  # noqa: S101 - every attempt failed
    raise _unfinished(path, failure) if isinstance(failure, Unfinished) else _damaged(path, failure)


def _attempts(path: Path) -> tuple[Callable[[Path, ExitStack], sqlite3.Connection], ...]:
    if not trust.is_safe_file(path):
        return (_copied,)
    return (_read_only, _copied) if _has_wal(path) else (_immutable, _read_only, _copied)


def _has_wal(path: Path) -> bool:
    return path.with_name(path.name + JOURNAL_SUFFIXES[0]).exists()


def _immutable(path: Path, _copies: ExitStack) -> sqlite3.Connection:
    return database.connected(path, "immutable=1")


def _read_only(path: Path, _copies: ExitStack) -> sqlite3.Connection:
    return database.connected(path, "mode=ro")


def _copied(path: Path, copies: ExitStack) -> sqlite3.Connection:
    """Raises NotPossibleHere where no folder can be made."""
    try:
        copy = copies.enter_context(temporary_folder()) / "history.sqlite"
    except NoFolder as error:
        raise NotPossibleHere(str(error), remedy=temporary.REMEDY) from None
    _copy(path, copy)
    if _has_wal(path):
        _copy(path.with_name(path.name + JOURNAL_SUFFIXES[0]), copy.with_name(copy.name + JOURNAL_SUFFIXES[0]))
    return database.connected(copy, "mode=rw")


def _copy(source: Path, copy: Path) -> None:
    """Raises OSError."""
    fd = content.open_regular(source)
    try:
        content.copy(fd, copy, _COPY_BYTES_MAX)
    finally:
        os.close(fd)


def _damaged(path: Path, error: Exception) -> NotPossibleHere:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return NotPossibleHere(
        f"cannot read the history at {path}: {reason[:_ERROR_CHARACTERS]}",
        remedy="if it is damaged, the exporter replaces it when it next reads the damaged part",
    )


def _unfinished(path: Path, error: Unfinished) -> NotPossibleHere:
    return NotPossibleHere(f"gave up reading the history at {path}: {error}", remedy="use a smaller --since")
