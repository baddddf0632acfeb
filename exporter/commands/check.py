"""`gpu-stall-exporter check`: would `run` work here, and what would it see?"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from exporter import __version__, config, support_bundle
from exporter.checks.preflight import CheckState, Finding, findings

EXIT_NOT_POSSIBLE = 3
_MARK = {CheckState.OK: "ok", CheckState.ABSENT: "--", CheckState.FAILED: "FAILED"}
_COLOUR = {CheckState.OK: "32", CheckState.ABSENT: "33", CheckState.FAILED: "1;31"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The settings of `run`, since they decide what is checked, and the form of the answer."""
    parser.add_argument("--format", choices=("text", "json"), default="text", help="a table for people, or JSON [text]")
    parser.add_argument(
        "--support-bundle",
        metavar="FILE",
        help=f"also write FILE, a new tar.gz for a bug report: {support_bundle.CONTENTS}. Never contents of other processes'"
        " environments, command lines, user names or tokens; look at it before you send it",
    )
    config.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 when `run` would work, else 3."""
    settings = config.load(vars(arguments))
    with ExitStack() as stack:
        place = None
        if arguments.support_bundle is not None:
            place = stack.enter_context(support_bundle.BundleFile(Path(arguments.support_bundle)))
        found = list(findings(settings))
        _print(found, arguments.format)
        if place is not None:
            written = place.write(settings, [asdict(finding) for finding in found], __version__)
            # Beside JSON, which is for machines, it would be in the way.
            print(written.one_line(), file=sys.stderr if arguments.format == "json" else sys.stdout)
    return 0 if will_work(found) else EXIT_NOT_POSSIBLE


def _print(found: Sequence[Finding], form: str) -> None:
    if form == "json":
        print(document(found))
    else:
        print(table(found, shutil.get_terminal_size((100, 24)).columns, is_coloured=sys.stdout.isatty()))
        verdict = (
            "`run` will work here." if will_work(found) else "`run` will NOT work here; mend what FAILED, from the top."
        )
        print(f"\n{verdict}")


def will_work(found: Sequence[Finding]) -> bool:
    """Whether nothing keeps `run` from working; what is absent does not."""
    return all(finding.state is not CheckState.FAILED for finding in found)


def document(found: Sequence[Finding]) -> str:
    """The answer for machines: version, ok, and every finding with all of its fields."""
    return json.dumps(
        {"version": __version__, "ok": will_work(found), "findings": [asdict(f) for f in found]}, indent=2
    )


def table(found: Sequence[Finding], columns: int, *, is_coloured: bool) -> str:
    """Subject, state, detail; the remedy below the detail."""
    subject_width = max(len(finding.subject) for finding in found)
    state_width = max(len(mark) for mark in _MARK.values())
    indent = " " * (subject_width + state_width + 4)
    lines = []
    for finding in found:
        mark = f"{_MARK[finding.state]:<{state_width}}"
        if is_coloured:
            mark = f"\033[{_COLOUR[finding.state]}m{mark}\033[0m"
        width = max(columns - len(indent), 30)
        detail = textwrap.wrap(finding.detail, width, break_on_hyphens=False) or [""]
        if finding.remedy:
            detail += textwrap.wrap(f"→ {finding.remedy}", width, break_on_hyphens=False)
        lines.append(f"{finding.subject:<{subject_width}}  {mark}  {detail[0]}")
        lines.extend(indent + line for line in detail[1:])
    return "\n".join(lines)
