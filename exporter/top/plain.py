"""The same tables as text or JSON, one after the other: for a pipe, a file, a terminal that can only print.

In: Views. Out: text without control characters but the ends of lines; a JSON document to a line.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol, TextIO

from exporter.errors import ExporterError
from exporter.scrape.view import View
from exporter.top import wording
from exporter.top.rendering import ScrapeStatus, plain_lines_of
from exporter.top.screen import Screen


class Writer(Protocol):
    """Writes what came of a scrape."""

    def view(self, view: View) -> None:
        """The figures."""

    def failure(self, failure: str) -> None:
        """Why there are none."""


def print_tables(
    writer: Writer,
    look: Callable[[], View],
    interval_seconds: float,
    *,
    is_once: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """The figures since the start, then those of every interval, for ever; or those of one interval.

    Raises what the first look does, and with is_once the second; a later one that fails is a line.
    """
    first = look()
    if is_once:
        sleep(interval_seconds)
        writer.view(look())
        return
    writer.view(first)
    while True:
        sleep(interval_seconds)
        try:
            view = look()
        except ExporterError as error:
            writer.failure(str(error))
        else:
            writer.view(view)


class TextWriter:
    """Writes tables of a width, with a blank line between them."""

    def __init__(self, to: TextIO, screen: Screen, shown_url: str, width: int) -> None:
        self._to = to
        self._screen = screen
        self._shown_url = shown_url
        self._width = width
        self._is_first = True

    def view(self, view: View) -> None:
        """A table."""
        glyphs = wording.glyphs_for(self._encoding)
        status = ScrapeStatus(self._shown_url, wording.time_of_day(view.at_unix_seconds))
        self._write(plain_lines_of(view, self._screen, status, self._width, glyphs))

    def failure(self, failure: str) -> None:
        """A line that says why there is no table."""
        self._write((f"no figures: {failure}",))

    @property
    def _encoding(self) -> str:
        return self._to.encoding or "ascii"

    def _write(self, lines: tuple[str, ...]) -> None:
        text = "".join(f"{wording.shown(line, self._encoding)}\n" for line in lines)
        self._to.write(text if self._is_first else f"\n{text}")
        self._to.flush()
        self._is_first = False


class JsonWriter:
    """Writes a document to a line: that of a View, or {"failure": …}. A quantile beyond 4,096 s is null."""

    def __init__(self, to: TextIO) -> None:
        self._to = to

    def view(self, view: View) -> None:
        """All of it; what is not known is null."""
        self._write(document(view))

    def failure(self, failure: str) -> None:
        """Why there is none."""
        self._write({"failure": failure})

    def _write(self, found: dict[str, Any]) -> None:
        self._to.write(f"{json.dumps(found)}\n")
        self._to.flush()


def document(view: View) -> dict[str, Any]:
    """A View as JSON can hold it, names for everything; severities by name."""
    return {
        "at_unix_seconds": view.at_unix_seconds,
        "window_seconds": view.window_seconds,
        "notes": view.notes,
        "chains": [
            {**one._asdict(), "identity": asdict(one.identity), "severity": one.severity.name.lower()}
            for one in view.chains
        ],
        "workloads": [
            {
                **{
                    name: value
                    for name, value in asdict(one).items()
                    if name not in ("processes", "lost", "operations")
                },
                "processes": [process._asdict() for process in one.processes],
                "lost": None
                if one.lost is None
                else [{**loss._asdict(), "culprits": dict(loss.culprits)} for loss in one.lost],
                "operations": [
                    {**operation._asdict(), "quantiles_seconds": _quantiles(operation.quantiles_seconds)}
                    for operation in one.operations
                ],
            }
            for one in view.workloads
        ],
    }


def _quantiles(quantiles: tuple[float, ...] | None) -> dict[str, float | None] | None:
    if quantiles is None:
        return None
    return {
        name: value if math.isfinite(value) else None
        for name, value in zip(("p50", "p95", "p99"), quantiles, strict=True)
    }
