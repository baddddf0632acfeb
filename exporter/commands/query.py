"""`gpu-stall-exporter query`: SQL over the history of this node, or of several at once. Needs no root."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from exporter.config import command_line, fleet_flags, parsers, recorded_flags
from exporter.config.fleet_flags import FleetFlags
from exporter.config.setting import parsed
from exporter.errors import BadInput
from exporter.fleet.clock_warnings import clock_warnings
from exporter.fleet.failure import SOME_FAILED, NodeFailure
from exporter.fleet.rows import rows_of_nodes, with_node
from exporter.fleet.target import target_of
from exporter.investigate.named import QUERY_OF, list_lines
from exporter.investigate.query import columns_of, query
from exporter.investigate.rendering import FORMATS, OBJECT_FORMATS
from exporter.investigate.result import Result
from exporter.investigate.row_table import result_over
from exporter.investigate.schema import schema_lines
from exporter.investigate.tables import QuerySpan
from exporter.terminal.suggestion import suggest
from exporter.units import NANOSECONDS

DEADLINE_SECONDS_MAX: Final = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [flags] [SELECT]"
    parser.add_argument("statement", nargs="?", default="", metavar="SELECT", help="one statement of SQLite's SQL")
    parser.add_argument("--since", default="1h", metavar="DURATION", help="how far to look back [1h]")
    recorded_flags.add_end(parser, "end of the span")
    parser.add_argument(
        "--resolution", metavar="DURATION", help="length of the intervals that windows are summed up to [--since]"
    )
    parser.add_argument("--name", choices=tuple(QUERY_OF), metavar="NAME", help="run a query of --list")
    parser.add_argument("--list", action="store_true", help="list queries for --name")
    parser.add_argument("--schema", action="store_true", help="list views and their columns")
    parser.add_argument("--format", choices=tuple(FORMATS), default="table", help="output format [table]")
    parser.add_argument(
        "--deadline", default="1s", metavar="DURATION", help="time limit of the statement, at most 60s [1s]"
    )
    parser.add_argument(
        "--merge", metavar="SELECT", help="with --nodes: a statement over the rows of all nodes, in the table `rows`"
    )
    fleet_flags.add_arguments(parser)
    command_line.add_arguments(parser, [recorded_flags.HISTORY])


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, and 4 if some of several nodes have failed."""
    if arguments.schema or arguments.list:
        print("\n".join(schema_lines() if arguments.schema else list_lines()))
        suggest("query --name=open-chains")
        return 0
    named = QUERY_OF.get(arguments.name or "")
    if bool(arguments.statement) == bool(named):
        raise BadInput(
            "want a SELECT, or --name, and not both",
            remedy="`gpu-stall-exporter query --list` has queries to begin with",
        )
    resolution = arguments.resolution or (named.resolution if named else "")
    statement = named.statement if named else arguments.statement
    if (flags := fleet_flags.fleet_flags(arguments, os.environ)) is not None:
        return _query_nodes(flags, statement, resolution, arguments)
    if arguments.merge:
        raise BadInput("--merge without --nodes", remedy="give --nodes, or one SELECT that has both")
    path = recorded_flags.history_path(arguments, os.environ)
    result = query(
        path,
        statement,
        _span(arguments, resolution),
        _deadline_seconds(arguments),
    )
    sys.stdout.writelines(FORMATS[arguments.format](result))
    same = recorded_flags.for_same_history(path)
    suggest(f"query --name={named.next_name}{same}" if named else "query --list")
    return 0


def _query_nodes(flags: FleetFlags, statement: str, resolution: str, arguments: argparse.Namespace) -> int:
    limit_seconds = _deadline_seconds(arguments)
    if vars(arguments)[recorded_flags.HISTORY.flag] is not None:
        raise flags.refusal_of("--history.path", "leave it out: each node has a history of its own")
    _span(arguments, resolution)
    known = columns_of(statement, limit_seconds)
    if arguments.merge:
        result_over(with_node(known), (), arguments.merge, limit_seconds)
    target = target_of(flags, os.environ)
    asked = {"statement": statement, "since": arguments.since, "resolution": resolution}
    asked |= recorded_flags.end_for_nodes(arguments)
    found = rows_of_nodes(target, asked, known)
    warnings = clock_warnings(found.clocks)
    if flags.is_all_required and found.failures:
        found, warnings = found._replace(columns=(), lines=[]), []
    result = Result(found.columns, found.lines)
    if arguments.merge and found.columns:
        result = result_over(found.columns, result.rows(), arguments.merge, limit_seconds)
    _print_with_failures(result, found.failures, arguments.format)
    for line in warnings:
        print(f"warning: {line}", file=sys.stderr)
    suggest(f"explain{fleet_flags.for_same_nodes(arguments)}")
    return SOME_FAILED if found.failures else 0


def _print_with_failures(result: Result, failures: Sequence[NodeFailure], form: str) -> None:
    """Failures are objects among those of the rows, or lines on standard error where a row has no name."""
    if form in OBJECT_FORMATS:
        sys.stdout.writelines(OBJECT_FORMATS[form](result, [one.document() for one in failures]))
        return
    if result.columns:
        sys.stdout.writelines(FORMATS[form](result))
    sys.stdout.flush()
    for one in failures:
        print(one.line, file=sys.stderr)


def _span(arguments: argparse.Namespace, resolution: str) -> QuerySpan:
    at_unix_ns = recorded_flags.moment_unix_ns(arguments, "at")
    until_unix_ns = time.time_ns() if at_unix_ns is None else at_unix_ns
    since_seconds = recorded_flags.since_seconds(arguments)
    resolution_seconds = parsed(parsers.duration, resolution, arguments.sources["resolution"]) if resolution else None
    return QuerySpan(
        max(until_unix_ns - int(since_seconds * NANOSECONDS), 0),
        until_unix_ns,
        None if resolution_seconds is None else int(resolution_seconds * NANOSECONDS),
        is_past=at_unix_ns is not None,
    )


def _deadline_seconds(arguments: argparse.Namespace) -> float:
    seconds = parsed(parsers.duration, arguments.deadline, arguments.sources["deadline"])
    if seconds > DEADLINE_SECONDS_MAX:
        raise BadInput(f"{arguments.sources['deadline']}: want at most {DEADLINE_SECONDS_MAX:.0f}s")
    return seconds
