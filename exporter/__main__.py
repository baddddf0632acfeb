"""The command line: chooses a command, prints errors, decides the exit code. Nothing else prints errors or exits."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

from exporter import __version__, config
from exporter.config.environment import FlagDefaults, example_of, unknown_variables
from exporter.errors import BadInput, ExporterError
from exporter.terminal import streams
from exporter.text.wrapping import words

PROGRAM = "gpu-stall-exporter"
COMMANDS = {
    "run": "attach probes and serve metrics",
    "check": "check whether `run` can start on this machine",
    "explain": "explain recent stalls: cause, culprit and remedy (needs no root)",
    "query": "query the history of this node with SQL (needs no root)",
    "export": "export a timeline of recent stalls for Perfetto (needs no root)",
    "serve": "serve answers from the history over HTTPS and MCP (needs no root)",
    "cluster": "receive and store what the exporters of many nodes push (needs no root)",
    "mcp": "serve answers from the history over MCP on standard input and output (needs no root)",
    "record": "record single calls of a few seconds for Perfetto",
    "trace": "print single calls as they happen",
    "merge": "merge the histories of several nodes into one file",
    "top": "show lost GPU time by workload and cause, live",
    "rates": "generate Prometheus rules that price lost GPU time",
    "demo": "demonstrate the exporter on a job with a real fault",
    "completion": "print completions for a shell, or the manual page",
    "assets": "write alert rules, boards, manifests and documents to a folder",
}
"""Command -> purpose. Only the module of the chosen command is imported: `run` is resident, and stays small."""

_ALL = "*"
_WITH_LOG = ("run",)
"""Commands that log warnings themselves."""


class _HelpFormatter(argparse.HelpFormatter):
    """Leaves paths and flags whole, which argparse would break at hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return words(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in self._split_lines(text, width - len(indent)))


class _OverviewFormatter(_HelpFormatter):
    """Leaves room for the longest command: argparse forgets their indent, and would begin a new line for its purpose."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = self._current_indent + max(map(len, COMMANDS)) + 4


class _Parser(argparse.ArgumentParser):
    """Bad usage is one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        bad_usage = BadInput(message, remedy=f"see `{self.prog} --help`")
        self.exit(bad_usage.exit_code, f"{self.prog}: {bad_usage.one_line()}\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """argparse would ignore that standard output is closed or full."""
        if file is sys.stdout:
            sys.stdout.write(message)
        else:
            super()._print_message(message, file)


def _parser(chosen: str | None) -> tuple[_Parser, dict[str, _Parser]]:
    """The parser of the command line, and those of its commands, of which one is complete. chosen: a command, or _ALL."""
    parser = _Parser(
        prog=PROGRAM,
        formatter_class=_OverviewFormatter,
        description="Finds out why GPUs wait, with eBPF probes on CUDA and NCCL. Exports to Prometheus and OTLP.",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    found = {}
    for name, purpose in COMMANDS.items():
        command = found[name] = commands.add_parser(
            name,
            usage="%(prog)s [flags]",
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        if chosen in (name, _ALL):
            module = importlib.import_module(f"exporter.commands.{name}")
            module.add_arguments(command)
            command.set_defaults(function=module.run)
            if example := example_of(command):
                sentence = f"Flags are also environment variables: {example}; a flag overrides it."
                command.epilog = f"{command.epilog or ''} {sentence}".lstrip()
    return parser, found


def command_parsers() -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Purpose and parser of every command, for completions and the manual page."""
    _, found = _parser(_ALL)
    return {name: (COMMANDS[name], parser) for name, parser in found.items()}


def _print_error(line: str) -> None:
    with suppress(OSError):  # standard error is full or closed, too: the exit code remains
        print(line, file=sys.stderr)


def _run(argv: Sequence[str]) -> int:
    chosen = next((word for word in argv if word in COMMANDS), None)
    parser, commands = _parser(chosen)
    defaults = FlagDefaults(commands[chosen]) if chosen else None
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.prog = f"{PROGRAM} {arguments.command}"  # its --help lists the flags
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if defaults is not None:
        defaults.fill(arguments, os.environ)
    if arguments.command not in _WITH_LOG and (warning := unknown_variables(os.environ, config.VARIABLES)):
        _print_error(f"{PROGRAM}: warning: {warning}")
    arguments.program, arguments.parsers = PROGRAM, command_parsers
    return int(arguments.function(arguments))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    streams.prepare()
    try:
        with streams.flushed():
            return _run(sys.argv[1:] if argv is None else argv)
    except ExporterError as error:
        if isinstance(error, streams.OutputFailed):
            streams.discard()
        _print_error(f"{PROGRAM}: {error.one_line()}")
        return error.exit_code
    except BrokenPipeError:
        streams.discard()
        return 141  # 128 + SIGPIPE: the reader of the output has exited
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT


if __name__ == "__main__":
    sys.exit(main())
