"""Adds one Report to a history that an exporter is writing: what an intervention has shown of a chain."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from exporter.chains.event import ChainEvent
from exporter.errors import NotPossibleHere
from exporter.history.store import INSERT_REPORT, report_row

_TIMEOUT_SECONDS = 5.0


def stamp(path: Path, run: int, report: ChainEvent) -> None:
    """Raises NotPossibleHere."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", timeout=_TIMEOUT_SECONDS, uri=True)
        try:
            with connection as transaction:
                transaction.execute(INSERT_REPORT, report_row(run, report))
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise NotPossibleHere(
            f"{path} cannot be written: {error}", remedy="the proof above counts, but is not kept"
        ) from None
