"""`gpu-stall-exporter merge`: the histories of several nodes as one file, for `explain` and `query`. Needs no root."""

from __future__ import annotations

import argparse
from pathlib import Path

from exporter.config import recorded_flags
from exporter.errors import BadInput
from exporter.investigate.clocks import lines
from exporter.investigate.merge import merge
from exporter.terminal.suggestion import suggest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s --output=FILE HISTORY…"
    parser.add_argument("histories", nargs="+", type=Path, metavar="HISTORY", help="history of a node, or a merged one")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="new file to write")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0."""
    if arguments.output is None:
        raise BadInput("want --output=FILE, a new file")
    counts = merge(arguments.histories, arguments.output)
    print(
        f"{arguments.output}: {counts.runs:,} runs of the exporter, {counts.intervals:,} intervals of windows and"
        f" {counts.events:,} chain events, from {len(arguments.histories):,} files"
    )
    for line in lines(counts.clocks):
        print(line)
    known = (
        ""
        if counts.clocks
        else "differences between clocks are not known, since no communicator was seen on two nodes, and "
    )
    print(f"times are those of each node's clock: {known}nothing is corrected")
    suggest(f"query --name=worst-chains --since=24h{recorded_flags.for_same_history(arguments.output)}")
    return 0
