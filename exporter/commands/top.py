"""`gpu-stall-exporter top`: which workloads lose GPU time now, and why. Scrapes a running exporter; needs no root."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from exporter.config import parsers
from exporter.config.setting import parsed
from exporter.config.web import DEFAULT_URL
from exporter.terminal.appearance import is_coloured
from exporter.terminal.waiting import announced
from exporter.top.screen import Screen, Sort

if TYPE_CHECKING:
    from exporter.scrape.view import View

_INTERVAL_SECONDS_MIN = 0.5  # the exporter caches its metrics for 0.2 s
_PLAIN_COLUMNS = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        default=DEFAULT_URL,
        metavar="URL",
        help=f"metrics of the exporter; HOST:PORT is enough [{DEFAULT_URL}]",
    )
    parser.add_argument("--interval", default="2s", metavar="DURATION", help="time between scrapes, 500ms or more [2s]")
    parser.add_argument(
        "--sort", default=Sort.LOST.value, choices=[sort.value for sort in Sort], help="order of workloads [lost]"
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="only workloads with TEXT in a label, program, cause or culprit",
    )
    parser.add_argument("--once", action="store_true", help="print one table and exit")
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="format without a live table; json prints a document per line [text]",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, or 128 plus the signal that ended the live table. Raises ExporterError if the first scrape fails."""
    from exporter.scrape import http_get  # noqa: PLC0415 - slow to import, and no other command needs it
    from exporter.top.scraper import Scraper  # noqa: PLC0415 - slow to import, and no other command needs it

    interval_seconds = parsed(_interval, arguments.interval, arguments.sources["interval"])
    screen = Screen(sort=Sort(arguments.sort), filter=arguments.filter)
    target = http_get.parse_target(arguments.url)
    scraper = Scraper(target)

    def scrape() -> View:
        with announced(f"metrics of {target.shown}"):
            return scraper.scrape()

    if _is_live(arguments):
        from exporter.top import scrape_thread, terminal  # noqa: PLC0415 - a Python without curses can still print

        first = scrape()
        scrapes = scrape_thread.ScrapeThread(scraper.scrape, interval_seconds)
        return terminal.show(scrapes, first, screen, target.shown, with_colour=is_coloured())
    from exporter.top import plain  # noqa: PLC0415

    if arguments.format == "json":
        writer: plain.Writer = plain.JsonWriter(sys.stdout)
    else:
        columns = shutil.get_terminal_size((_PLAIN_COLUMNS, 24)).columns
        writer = plain.TextWriter(sys.stdout, screen, target.shown, columns)
    plain.print_tables(writer, scrape, interval_seconds, is_once=arguments.once)
    return 0


def _interval(text: str) -> float:
    seconds = parsers.duration(text)
    if seconds < _INTERVAL_SECONDS_MIN:
        raise ValueError("want 500ms or more: the exporter caches its metrics for 200ms")
    return seconds


def _is_live(arguments: argparse.Namespace) -> bool:
    """Whether there is a terminal for a table that is redrawn, and a keyboard."""
    is_text = arguments.format == "text" and not arguments.once
    return is_text and sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
