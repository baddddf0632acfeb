"""`gpu-stall-exporter trace`: the workloads as `top --once` shows them, then calls as lines of text, while they happen."""

from __future__ import annotations

import argparse
import shutil
import sys

from exporter.app.recording_request import add_bounds, print_lines
from exporter.config import command_line
from exporter.config.storage import RECORDING_SOCKET
from exporter.config.web import DEFAULT_URL
from exporter.errors import ExporterError
from exporter.terminal.suggestion import suggest
from exporter.top.screen import Screen

_TABLE_SECONDS = 2.0
_COLUMNS = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bounds(parser, default_for="10s")
    parser.add_argument(
        "--url",
        default=DEFAULT_URL,
        metavar="URL",
        help=f"metrics for the table of workloads; HOST:PORT is enough [{DEFAULT_URL}]",
    )


def run(arguments: argparse.Namespace) -> int:
    _print_table(arguments.url)
    code = print_lines(arguments)
    suggest(f"record{command_line.repeated(arguments, ('pid', 'workload', RECORDING_SOCKET.flag))}")
    return code


def _print_table(url: str) -> None:
    """Calls can be traced without an exporter, and then there is no table."""
    from exporter.scrape import http_get  # noqa: PLC0415 - slow to import, and `record` does without it
    from exporter.top import plain  # noqa: PLC0415
    from exporter.top.scraper import Scraper  # noqa: PLC0415

    target = http_get.parse_target(url)
    columns = shutil.get_terminal_size((_COLUMNS, 24)).columns
    writer = plain.TextWriter(sys.stdout, Screen(), target.shown, columns)
    try:
        plain.print_tables(writer, Scraper(target).scrape, _TABLE_SECONDS, is_once=True)
    except ExporterError as error:
        print(f"no table of workloads: {error.one_line()}", file=sys.stderr)
    else:
        print(flush=True)
