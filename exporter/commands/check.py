"""`gpu-stall-exporter check`: whether `run` can start here, and what would be missing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from exporter import __version__, config
from exporter.checks.all_checks import run_checks
from exporter.checks.check import Check, CheckState
from exporter.support_bundle.bundle import BundleFile
from exporter.terminal.appearance import columns, is_coloured
from exporter.terminal.suggestion import suggest
from exporter.text.wrapping import words

EXIT_NOT_POSSIBLE = 3
_COLUMNS_OF_FILE = 100
_TEXT_COLUMNS_MIN = 30
_MARK = {CheckState.OK: "ok", CheckState.WARNING: "warning", CheckState.FAILED: "FAILED"}
_COLOUR = {CheckState.OK: "32", CheckState.WARNING: "33", CheckState.FAILED: "1;31"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The settings of `run` are flags, too: they decide what is checked."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format [text]")
    parser.add_argument(
        "--support-bundle",
        metavar="FILE",
        help="also write diagnostics without secrets to a new tar.gz, for a bug report",
    )
    config.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 if `run` can start, else 3."""
    settings = config.load(vars(arguments))
    with ExitStack() as stack:
        bundle = None
        if arguments.support_bundle is not None:
            bundle = stack.enter_context(BundleFile(Path(arguments.support_bundle)))
        checks = list(run_checks(settings))
        _print(checks, arguments.format)
        if can_start(checks):
            suggest("run")
        if bundle is not None:
            written = bundle.write(settings, [asdict(check) for check in checks], __version__)
            # On stderr beside JSON, so that stdout stays one document.
            print(written.one_line(), file=sys.stderr if arguments.format == "json" else sys.stdout)
    return 0 if can_start(checks) else EXIT_NOT_POSSIBLE


def _print(checks: Sequence[Check], form: str) -> None:
    if form == "json":
        print(document(checks))
        return
    print(table(checks, columns() or _COLUMNS_OF_FILE, with_colour=is_coloured()))
    print()
    print(
        "`run` can start" if can_start(checks) else "`run` cannot start: fix the FAILED checks above, first one first"
    )


def can_start(checks: Sequence[Check]) -> bool:
    """Whether no check failed; warnings do not count."""
    return all(check.state is not CheckState.FAILED for check in checks)


def document(checks: Sequence[Check]) -> str:
    """JSON: version, ok, and every check with all of its fields."""
    return json.dumps(
        {"version": __version__, "ok": can_start(checks), "checks": [asdict(check) for check in checks]}, indent=2
    )


def table(checks: Sequence[Check], width: int, *, with_colour: bool) -> str:
    """Name, state, what was found; the remedy on the lines below. A narrow terminal has what was found there, too."""
    name_width = max(len(check.name) for check in checks)
    state_width = max(len(mark) for mark in _MARK.values())
    head_width = name_width + state_width + 4
    is_narrow = width < head_width + _TEXT_COLUMNS_MIN
    indent = " " * (2 if is_narrow else head_width)
    lines = []
    for check in checks:
        mark = f"{_MARK[check.state]:<{state_width}}"
        if with_colour:
            mark = f"\033[{_COLOUR[check.state]}m{mark}\033[0m"
        text = words(check.found, max(width - len(indent), 1)) or [""]
        if check.remedy:
            text += words(f"→ {check.remedy}", max(width - len(indent), 1))
        head = f"{check.name:<{name_width}}  {mark}"
        lines.append(head if is_narrow else f"{head}  {text.pop(0)}")
        lines.extend(indent + line for line in text)
    return "\n".join(lines)
