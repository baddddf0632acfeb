"""`gpu-stall-exporter top`: which workloads lose GPU time now, and why. Scrapes an exporter, or asks nodes; needs no root."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from exporter.config import fleet_flags, parsers
from exporter.config.fleet_flags import FleetFlags
from exporter.config.setting import parsed
from exporter.config.web import DEFAULT_URL
from exporter.fleet.asking import ask
from exporter.fleet.failure import SOME_FAILED
from exporter.fleet.fleet_view import fleet_view
from exporter.fleet.node_view import decoded, view_request
from exporter.fleet.target import target_of
from exporter.terminal.appearance import is_coloured
from exporter.terminal.suggestion import suggest
from exporter.terminal.waiting import announced
from exporter.top.screen import Screen, Sort

if TYPE_CHECKING:
    from exporter.scrape.view import View
    from exporter.top.plain import Writer

_INTERVAL_SECONDS_MIN = 0.5  # the exporter caches its metrics for 0.2 s
_PLAIN_COLUMNS = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"metrics of the exporter; HOST:PORT is enough [{DEFAULT_URL}]",
    )
    parser.add_argument(
        "--interval", metavar="DURATION", help="time between scrapes, 500ms or more [2s; with --nodes 10s]"
    )
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
    fleet_flags.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, or 128 plus the signal that ended the live table. Raises ExporterError if the first scrape fails.

    With --once, 4 if some of several nodes have failed.
    """
    if (flags := fleet_flags.fleet_flags(arguments, os.environ)) is not None:
        code = _top_nodes(flags, arguments)
        suggest(f"explain{fleet_flags.for_same_nodes(arguments)}")
        return code
    code = _top_exporter(arguments)
    if arguments.url is None:  # else it may be another machine, whose history is there
        suggest("explain")
    return code


def _top_exporter(arguments: argparse.Namespace) -> int:
    from exporter.scrape import http_get  # noqa: PLC0415 - slow to import, and no other command needs it
    from exporter.top.scraper import Scraper  # noqa: PLC0415 - slow to import, and no other command needs it

    interval_seconds = _interval_seconds(arguments, "2s")
    target = http_get.parse_target(arguments.url or DEFAULT_URL)
    scraper = Scraper(target)

    def scrape() -> View:
        with announced(f"metrics of {target.shown}"):
            return scraper.scrape()

    if _is_live(arguments):
        return _show(scrape(), scraper.scrape, interval_seconds, target.shown, arguments)
    from exporter.top import plain  # noqa: PLC0415

    plain.print_tables(_writer(target.shown, arguments), scrape, interval_seconds, is_once=arguments.once)
    return 0


def _top_nodes(flags: FleetFlags, arguments: argparse.Namespace) -> int:
    """Nodes are looked up once; each table has the whole deadline."""
    if arguments.url is not None:
        raise flags.refusal_of(arguments.sources["url"], "leave --url out")
    interval_seconds = _interval_seconds(arguments, "10s")
    target = target_of(flags, os.environ)
    shown = f"--nodes={flags.nodes}"

    def ask_nodes() -> View:
        asked = target.renewed(flags.deadline_seconds)
        found = fleet_view(ask(asked.nodes, asked.asked(view_request()), decoded), time.time())
        if flags.is_all_required and found.failed_nodes:
            return replace(found, workloads=(), chains=())
        return found

    with announced(f"{len(target.nodes)} nodes"):
        first = ask_nodes()
    if _is_live(arguments):
        return _show(first, ask_nodes, interval_seconds, shown, arguments)
    writer = _writer(shown, arguments)
    writer.view(first)
    if arguments.once:
        return SOME_FAILED if first.failed_nodes else 0
    while True:
        time.sleep(interval_seconds)
        writer.view(ask_nodes())


def _show(
    first: View, scrape: Callable[[], View], interval_seconds: float, shown: str, arguments: argparse.Namespace
) -> int:
    from exporter.top import scrape_thread, terminal  # noqa: PLC0415 - a Python without curses can still print

    scrapes = scrape_thread.ScrapeThread(scrape, interval_seconds)
    return terminal.show(scrapes, first, _screen(arguments), shown, with_colour=is_coloured())


def _writer(shown: str, arguments: argparse.Namespace) -> Writer:
    from exporter.top import plain  # noqa: PLC0415

    if arguments.format == "json":
        return plain.JsonWriter(sys.stdout)
    columns = shutil.get_terminal_size((_PLAIN_COLUMNS, 24)).columns
    return plain.TextWriter(sys.stdout, _screen(arguments), shown, columns)


def _screen(arguments: argparse.Namespace) -> Screen:
    return Screen(sort=Sort(arguments.sort), filter=arguments.filter)


def _interval_seconds(arguments: argparse.Namespace, default: str) -> float:
    return float(parsed(_interval, arguments.interval or default, arguments.sources["interval"]))


def _interval(text: str) -> float:
    seconds = parsers.duration(text)
    if seconds < _INTERVAL_SECONDS_MIN:
        raise ValueError("want 500ms or more: the exporter caches its metrics for 200ms")
    return seconds


def _is_live(arguments: argparse.Namespace) -> bool:
    """Whether there is a terminal for a table that is redrawn, and a keyboard."""
    is_text = arguments.format == "text" and not arguments.once
    return is_text and sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
