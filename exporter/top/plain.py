"""Tables as text or JSON, for a pipe, a file, or a terminal that can only print.

In: Views. Out: text without control characters except line ends; one JSON document per line.
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
from exporter.top import terminal_text
from exporter.top.rendering import ScrapeStatus, plain_lines_of
from exporter.top.screen import Screen


class Writer(Protocol):
    """Writes the results of scrapes."""

    def view(self, view: View) -> None:
        """Write a successful scrape."""

    def failure(self, failure: str) -> None:
        """Write the reason of a failed scrape."""


def print_tables(
    writer: Writer,
    scrape: Callable[[], View],
    interval_seconds: float,
    *,
    is_once: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Totals since the start, then every interval for ever; with is_once one interval only.

    Raises what the first scrape raises, and with is_once the second; a later failure is printed.
    """
    first = scrape()
    if is_once:
        sleep(interval_seconds)
        writer.view(scrape())
        return
    writer.view(first)
    while True:
        sleep(interval_seconds)
        try:
            view = scrape()
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
        glyphs = terminal_text.glyphs_for(self._encoding)
        status = ScrapeStatus(self._shown_url, terminal_text.time_of_day(view.at_unix_seconds))
        self._write(plain_lines_of(view, self._screen, status, self._width, glyphs))

    def failure(self, failure: str) -> None:
        self._write((f"no figures: {failure}",))

    @property
    def _encoding(self) -> str:
        return self._to.encoding or "ascii"

    def _write(self, lines: tuple[str, ...]) -> None:
        text = "".join(f"{terminal_text.encodable(line, self._encoding)}\n" for line in lines)
        self._to.write(text if self._is_first else f"\n{text}")
        self._to.flush()
        self._is_first = False


class JsonWriter:
    """One document per line: a View, or {"failure": …}. A quantile beyond 4,096 s is null."""

    def __init__(self, to: TextIO) -> None:
        self._to = to

    def view(self, view: View) -> None:
        """Unknown figures are null."""
        self._write(document(view))

    def failure(self, failure: str) -> None:
        self._write({"failure": failure})

    def _write(self, found: dict[str, Any]) -> None:
        self._to.write(f"{json.dumps(found)}\n")
        self._to.flush()


def document(view: View) -> dict[str, Any]:
    """A View as a JSON document; severities by name."""
    return {
        "at_unix_seconds": view.at_unix_seconds,
        "window_seconds": view.window_seconds,
        "notes": view.notes,
        "failed_nodes": [one._asdict() for one in view.failed_nodes],
        "chains": [
            {**one._asdict(), "identity": asdict(one.identity), "severity": one.severity.name.lower()}
            for one in view.chains
        ],
        "workloads": [
            {
                **{
                    name: value
                    for name, value in asdict(one).items()
                    if name not in ("processes", "lost", "operations", "slow_lines")
                },
                "processes": [process._asdict() for process in one.processes],
                "lost": None
                if one.lost is None
                else [{**loss._asdict(), "culprits": dict(loss.culprits)} for loss in one.lost],
                "operations": [
                    {**operation._asdict(), "quantiles_seconds": _quantiles(operation.quantiles_seconds)}
                    for operation in one.operations
                ],
                "slow_lines": [{**line._asdict(), "mean_seconds": line.mean_seconds} for line in one.slow_lines],
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
