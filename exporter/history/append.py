"""Appends one chain event to a history that an exporter is writing: the result of an intervention."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from exporter.chains.event import ChainEvent
from exporter.errors import NotPossibleHere
from exporter.history.store import INSERT_EVENT, event_row

_TIMEOUT_SECONDS = 5.0


def append_event(path: Path, run: int, event: ChainEvent) -> None:
    """Raises NotPossibleHere."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", timeout=_TIMEOUT_SECONDS, uri=True)
        try:
            with connection as transaction:
                transaction.execute(INSERT_EVENT, event_row(run, event))
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise NotPossibleHere(
            f"cannot write the result to {path}: {error}",
            remedy="the result above is valid, but `explain` will not show it",
        ) from None
