"""`gpu-stall-exporter completion`: completions for bash, zsh and fish, and the manual page."""

from __future__ import annotations

import argparse
from typing import Final

from exporter.manual import completions, page
from exporter.manual.command import commands

_WRITERS: Final = {"bash": completions.bash, "zsh": completions.zsh, "fish": completions.fish, "man": page.man}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FORMAT"
    parser.add_argument("output_format", metavar="FORMAT", choices=tuple(_WRITERS), help="bash, zsh, fish or man")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0. arguments.parsers: makes the parsers of all commands."""
    print(_WRITERS[arguments.output_format](arguments.program, commands(arguments.parsers())), end="")
    return 0
