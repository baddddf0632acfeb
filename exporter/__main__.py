"""The command line: chooses a command, prints errors, decides the exit code. Nothing else prints errors or exits."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from exporter import __version__
from exporter.errors import BadInput, ExporterError

PROGRAM = "gpu-stall-exporter"
COMMANDS = {
    "run": "attach to CUDA and NCCL, and serve metrics",
    "check": "say whether `run` would work here, and what is missing",
    "explain": "say what was slow of late, why, and what to do; needs no root",
    "top": "a live table of a running exporter: which rank loses time, and why",
    "rates": "make rules for Prometheus of what GPUs cost",
    "demo": "show what the exporter says of a job under a real fault",
}
"""What each is for. Only the module of the one that is asked for is imported: `run` lives long, and needs no other."""


class _Parser(argparse.ArgumentParser):
    """Bad usage is one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        bad_usage = BadInput(message, remedy=f"see `{self.prog} --help`")
        self.exit(bad_usage.exit_code, f"{self.prog}: {bad_usage.one_line()}\n")


def _parser(argv: Sequence[str]) -> _Parser:
    parser = _Parser(
        prog=PROGRAM, description="Says why a GPU waits: eBPF probes on CUDA and NCCL, served to Prometheus."
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    chosen = next((word for word in argv if word in COMMANDS), None)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(
            name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.", allow_abbrev=False
        )
        if name == chosen:
            module = importlib.import_module(f"exporter.commands.{name}")
            module.add_arguments(command)
            command.set_defaults(function=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(argv)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.prog = f"{PROGRAM} {arguments.command}"  # whose --help lists the flags there are
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return int(arguments.function(arguments))
    except ExporterError as error:
        print(f"{PROGRAM}: {error.one_line()}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        return 141  # 128 + SIGPIPE: the reader of our output went away
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT


if __name__ == "__main__":
    sys.exit(main())
