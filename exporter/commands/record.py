"""`gpu-stall-exporter record`: single calls of a few seconds as a trace for Perfetto, by the running exporter or without one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from exporter.app.recording_request import add_bounds, asked, document_of, print_lines
from exporter.config import command_line
from exporter.errors import BadInput, NotPossibleHere
from exporter.files import temporary
from exporter.files.temporary import NoFolder, temporary_file
from exporter.recording.call_stream import RecordingEnd, frames
from exporter.recording.recorded_calls import RecordedCalls, SingleCall
from exporter.terminal.suggestion import suggest
from exporter.terminal.waiting import announced
from exporter.timeline import perfetto
from exporter.timeline.single_calls import Collectives, SingleCallTimeline
from exporter.timeline.writing import write_timeline
from exporter.units import seconds

STANDARD_OUTPUT = "-"
_PIECE_BYTES = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bounds(parser, default_for="5s")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file to write, - for standard output [that; on a terminal a new file in this folder]",
    )
    parser.add_argument("--follow", action="store_true", help="print lines as calls happen instead, as `trace` does")


def run(arguments: argparse.Namespace) -> int:
    """Replaces the output at once: a viewer never reads half a trace."""
    if arguments.follow:
        if arguments.output is not None:
            raise BadInput("--follow prints lines: it takes no --output", remedy="leave one of them out")
        return print_lines(arguments)
    output: str | None = arguments.output
    if output is None:
        is_terminal = sys.stdout.isatty()
        output = time.strftime("gpu-stall-exporter-%Y%m%dT%H%M%S.pftrace") if is_terminal else STANDARD_OUTPUT
    with _spool() as spool:
        with announced("the recording"), asked(arguments, document_of(arguments)) as stream:
            _copy(stream, spool)
        read, collectives = _read(spool)
        end = read.end
        if end is None or not read.calls:
            raise NotPossibleHere("no traced call returned in this time", remedy="record for longer, or see `check`")
        timeline = SingleCallTimeline(read, collectives)
        spool.seek(0)
        pieces = perfetto.encoded(timeline.items(RecordedCalls().read(frames(spool.read))))
        if output == STANDARD_OUTPUT:
            sys.stdout.buffer.writelines(pieces)
        else:
            print(write_timeline(Path(output), pieces))
            print(_summary(read, end))
            print("open it at https://ui.perfetto.dev, which reads it in the browser and sends it nowhere")
            suggest(f"explain{command_line.repeated(arguments, ('workload',))}")
    return 0


@contextmanager
def _spool() -> Iterator[IO[bytes]]:
    """Raises NotPossibleHere."""
    try:
        with temporary_file() as spool:
            yield spool
    except NoFolder as error:
        raise NotPossibleHere(str(error), remedy=temporary.REMEDY) from None


def _copy(stream: IO[bytes], spool: IO[bytes]) -> None:
    while piece := stream.read(_PIECE_BYTES):
        spool.write(piece)
    spool.seek(0)


def _read(spool: IO[bytes]) -> tuple[RecordedCalls, Collectives]:
    """The recording up to its end: names, counts, and when ranks entered collectives."""
    read, collectives = RecordedCalls(), Collectives()
    for one in read.read(frames(spool.read)):
        if isinstance(one, SingleCall):
            collectives.note(one)
    return read, collectives


def _summary(read: RecordedCalls, end: RecordingEnd) -> str:
    """`85,012 calls of 2 processes in 5.0 s; nothing dropped`."""
    jobs = end.processes.values()
    length = seconds(end.ended_ns - read.head.began_ns) if read.head else 0.0
    named = {
        "without room in the ring": sum(job.full for job in jobs),
        "over the overhead limit": sum(job.left_out for job in jobs),
        "skipped by the kernel": end.skipped,
    }
    dropped = ", ".join(f"{count:,} {why}" for why, count in named.items() if count)
    processes = f"{len(jobs)} process{'es' * (len(jobs) != 1)}"
    why = "; it reached --max-bytes" if end.reason == "bytes" else ""
    missing = f"dropped events: {dropped}" if dropped else "nothing dropped"
    return f"{read.calls:,} calls of {processes} in {length:.1f} s; {missing}{why}"
