"""`gpu-stall-exporter export`: the history, a recording, or histories of nodes as a timeline for viewers. Needs no root."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from exporter.config import command_line, fleet_flags, recorded_flags
from exporter.config.fleet_flags import FleetFlags
from exporter.errors import BadInput, NotPossibleHere
from exporter.fleet.asking import NodeAnswer, ask, known_clocks
from exporter.fleet.clock_offset import offset_phrase
from exporter.fleet.clock_warnings import clock_warnings
from exporter.fleet.exchange import NodeRequest
from exporter.fleet.failure import SOME_FAILED, NodeFailure, NodeFailureKind, NodeUnusable
from exporter.fleet.target import target_of
from exporter.history.process_names import no_match
from exporter.history.selection import Selection
from exporter.recording.file import read
from exporter.terminal.suggestion import suggest
from exporter.terminal.waiting import announced
from exporter.text.untrusted import Untrusted
from exporter.timeline import chrome, perfetto
from exporter.timeline.item import Item
from exporter.timeline.node_trace import NodeTrace, has_items, merged
from exporter.timeline.source import TimelineSource, recorded, stored
from exporter.timeline.timeline import Timeline
from exporter.timeline.writing import write_timeline

STANDARD_OUTPUT = "-"
_ENCODERS: dict[str, Callable[[Iterable[Item]], Iterator[bytes]]] = {
    "perfetto": perfetto.encoded,
    "chrome": chrome.encoded,
}
_NODE_BYTES_MAX: Final = 64 << 20
_ALL_BYTES_MAX: Final = 256 << 20
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]|^\.+")
_SUFFIXES = {"perfetto": "pftrace", "chrome": "json"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=tuple(_ENCODERS), default="perfetto", help="protobuf, or JSON of Chrome [perfetto]"
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file, - for standard output; with --nodes also a folder [-; on a terminal a new file]",
    )
    recorded_flags.add_arguments(parser)
    recorded_flags.add_end(parser, "end of the span")
    fleet_flags.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, and 4 if some of several nodes have failed. Replaces the output at once: a viewer never reads half a file."""
    selection = Selection.of(arguments.workload)
    if (flags := fleet_flags.fleet_flags(arguments, os.environ)) is not None:
        return _export_nodes(flags, arguments)
    with _source(arguments) as source:
        timeline = Timeline(source, selection)
        if _write(_items(timeline, arguments), arguments):
            names = ("recording",) if arguments.recording else (recorded_flags.HISTORY.flag, "since", "at")
            suggest(f"explain{command_line.repeated(arguments, (*names, 'workload'))}")
    return 0


def _write(items: Iterable[Item], arguments: argparse.Namespace) -> bool:
    """Whether it went into a file."""
    output: str | None = arguments.output
    if output is None:
        output = _new_name(arguments.format) if sys.stdout.isatty() else STANDARD_OUTPUT
    pieces = _ENCODERS[arguments.format](items)
    if output == STANDARD_OUTPUT:
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.flush()
        return False
    print(write_timeline(Path(output), pieces))
    print("open it at https://ui.perfetto.dev, which reads it in the browser and sends it nowhere")
    return True


def _export_nodes(flags: FleetFlags, arguments: argparse.Namespace) -> int:
    """Failures are lines on standard error, as are nodes without a traced call."""
    for flag in ("recording", recorded_flags.HISTORY.flag):
        if vars(arguments)[flag]:
            raise flags.refusal_of(arguments.sources.get(flag, f"--{flag}"), "use it on the node itself")
    recorded_flags.since_seconds(arguments)
    target = target_of(flags, os.environ)
    span = {"since": arguments.since, "workload": arguments.workload} | recorded_flags.end_for_nodes(arguments)
    request = NodeRequest(f"/api/v1/timeline?{urlencode(span)}", "application/vnd.perfetto.trace")
    asked = target.asked(request)._replace(
        bytes_max=_NODE_BYTES_MAX, all_bytes_max=_ALL_BYTES_MAX, compares_clocks=True
    )
    with announced(f"{len(target.nodes)} nodes"):
        results = ask(target.nodes, asked, _whole)
    traces, silent, failures = _sorted(results)
    if not traces and not failures:
        raise NotPossibleHere(
            "no process made a traced call on these nodes in this time", remedy="increase --since, or see --workload"
        )
    if traces and not (flags.is_all_required and failures):
        _write_nodes(traces, arguments)
        silent += [f"warning: {line}" for line in clock_warnings(known_clocks(results))]
    for line in (*(one.line for one in failures), *silent):
        print(line, file=sys.stderr)
    suggest(f"explain{fleet_flags.for_same_nodes(arguments)}")
    return SOME_FAILED if failures else 0


def _write_nodes(traces: Sequence[NodeTrace], arguments: argparse.Namespace) -> None:
    """One file with all nodes, or in a folder one for each."""
    folder = Path(arguments.output or STANDARD_OUTPUT)
    if not folder.is_dir():
        _write(merged(traces), arguments)
        return
    for trace in traces:
        name = f"{_NOT_IN_NAMES.sub('_', trace.name)}.{_SUFFIXES[arguments.format]}"
        print(write_timeline(folder / name, _ENCODERS[arguments.format](merged([trace]))))


def _sorted(
    results: Iterable[NodeAnswer[bytearray] | NodeFailure],
) -> tuple[list[NodeTrace], list[str], list[NodeFailure]]:
    """Traces that can be read, a line for each node in which nothing happened, and failures."""
    traces: list[NodeTrace] = []
    silent: list[str] = []
    failures: list[NodeFailure] = []
    for one in results:
        if isinstance(one, NodeFailure):
            failures.append(one)
            continue
        clock = "clock offset unknown" if one.clock is None else f"clock {offset_phrase(one.clock)}"
        trace = NodeTrace(one.node.name, one.document, clock)
        try:
            if has_items(trace):
                traces.append(trace)
            else:
                silent.append(f"{trace.name}: no process made a traced call in this time")
        except Untrusted as error:
            failures.append(NodeUnusable(NodeFailureKind.NOT_READABLE, f"not a Perfetto trace: {error}").of(one.node))
    return traces, silent, failures


def _whole(body: bytearray) -> bytearray:
    """A trace takes time to read: that is done when all nodes have answered."""
    return body


@contextmanager
def _source(arguments: argparse.Namespace) -> Iterator[TimelineSource]:
    at_unix_ns = recorded_flags.moment_unix_ns(arguments, "at")
    if arguments.recording is None:
        history = recorded_flags.history_path(arguments, os.environ)
        with stored(history, recorded_flags.since_seconds(arguments), at_unix_ns=at_unix_ns) as source:
            yield source
        return
    if at_unix_ns is not None:
        raise BadInput("--at cannot be combined with --recording")
    path = Path(arguments.recording)
    recording = read(path)
    try:
        with recorded(recording) as source:
            yield source
    except ValueError as error:
        raise BadInput(f"{path} cannot be replayed: {error}") from None


def _items(timeline: Timeline, arguments: argparse.Namespace) -> Iterator[Item]:
    """Refuses a timeline without a workload."""
    yield from timeline.items()
    if timeline.is_empty and arguments.workload:
        raise no_match(arguments.workload, timeline.names)
    if timeline.is_empty:
        raise NotPossibleHere("no process made a traced call in this time", remedy="increase --since")


def _new_name(chosen: str) -> str:
    return time.strftime(f"gpu-stall-exporter-%Y%m%dT%H%M%S.{_SUFFIXES[chosen]}")
