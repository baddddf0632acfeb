"""`gpu-stall-exporter top`: who loses time now, and why? Asks a running exporter over HTTP; needs neither root nor a GPU."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from exporter.config import parsers
from exporter.config.web import DEFAULT_URL
from exporter.errors import BadInput
from exporter.top.screen import Screen, Sort

_INTERVAL_SECONDS_MIN = 0.5  # an exporter serves one snapshot for 0.2 s
_PLAIN_COLUMNS = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to ask, how often, and what to show of it."""
    parser.add_argument(
        "--url",
        default=DEFAULT_URL,
        metavar="URL",
        help=f"the exporter's metrics; HOST:PORT is enough [{DEFAULT_URL}]",
    )
    parser.add_argument("--interval", default="2s", metavar="DURATION", help="time between two scrapes [2s]")
    parser.add_argument(
        "--sort", default=Sort.LOST.value, choices=[sort.value for sort in Sort], help="order of the workloads [lost]"
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="only workloads with this in a label, program, cause or culprit: rank=3",
    )
    parser.add_argument(
        "--once", action="store_true", help="print the rates of one interval and end, as if the output were no terminal"
    )
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="of output that is no live table: json is a document a line [text]",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, or 128 and the number of the signal that ended the live table. Raises what the first scrape does."""
    from exporter.scrape import http_get  # noqa: PLC0415 - they cost, and other commands need none of it
    from exporter.top import looking  # noqa: PLC0415 - they cost, and other commands need none of it

    interval_seconds = _interval_seconds(arguments.interval)
    screen = Screen(sort=Sort(arguments.sort), filter=arguments.filter)
    target = http_get.parse_target(arguments.url)
    look = looking.Looker(target).look
    if _is_live(arguments):
        from exporter.top import terminal, watching  # noqa: PLC0415 - a Python without curses can still print

        first = look()
        watcher = watching.Watcher(look, interval_seconds)
        return terminal.show(watcher, first, screen, target.shown, with_colour=not os.environ.get("NO_COLOR"))
    from exporter.top import plain  # noqa: PLC0415

    if arguments.format == "json":
        writer: plain.Writer = plain.JsonWriter(sys.stdout)
    else:
        columns = shutil.get_terminal_size((_PLAIN_COLUMNS, 24)).columns
        writer = plain.TextWriter(sys.stdout, screen, target.shown, columns)
    plain.print_tables(writer, look, interval_seconds, is_once=arguments.once)
    return 0


def _interval_seconds(text: str) -> float:
    try:
        seconds = parsers.duration(text)
    except ValueError as error:
        raise BadInput(f"--interval: {text!r}: {error}") from None
    if seconds < _INTERVAL_SECONDS_MIN:
        raise BadInput(
            f"--interval: {text!r} is too short", remedy="want 500ms or more: the exporter serves a snapshot for 200ms"
        )
    return seconds


def _is_live(arguments: argparse.Namespace) -> bool:
    """Whether somebody looks at a terminal that can move its cursor, and has keys to press."""
    is_text = arguments.format == "text" and not arguments.once
    return is_text and sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
