"""The command line: chooses a command, prints errors, decides the exit code. Nothing else prints errors or exits."""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from collections.abc import Sequence
from typing import NoReturn

from exporter import __version__
from exporter.errors import BadInput, ExporterError

PROGRAM = "gpu-stall-exporter"
COMMANDS = {
    "run": "attach probes and serve metrics",
    "check": "check whether `run` can start on this machine",
    "explain": "explain recent stalls: cause, culprit and remedy (needs no root)",
    "top": "show lost GPU time by workload and cause, live",
    "rates": "generate Prometheus rules that price lost GPU time",
    "demo": "demonstrate the exporter on a job with a real fault",
}
"""Command -> purpose. Only the module of the chosen command is imported: `run` is resident, and stays small."""


class _HelpFormatter(argparse.HelpFormatter):
    """Leaves paths and flags whole, which argparse would break at hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in self._split_lines(text, width - len(indent)))


class _Parser(argparse.ArgumentParser):
    """Bad usage is one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        bad_usage = BadInput(message, remedy=f"see `{self.prog} --help`")
        self.exit(bad_usage.exit_code, f"{self.prog}: {bad_usage.one_line()}\n")


def _parser(argv: Sequence[str]) -> _Parser:
    parser = _Parser(
        prog=PROGRAM,
        description="Finds out why GPUs wait, with eBPF probes on CUDA and NCCL. Exports to Prometheus and OTLP.",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    chosen = next((word for word in argv if word in COMMANDS), None)
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(
            name,
            usage="%(prog)s [flags]",
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
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
        parser.prog = f"{PROGRAM} {arguments.command}"  # its --help lists the flags
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        return int(arguments.function(arguments))
    except ExporterError as error:
        print(f"{PROGRAM}: {error.one_line()}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        return 141  # 128 + SIGPIPE: the reader of the output has exited
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT


if __name__ == "__main__":
    sys.exit(main())
