"""Flags of commands that read what `run` has recorded: which history or recording, which span of it, which workload."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from exporter.config import command_line, parsers
from exporter.config.moment import past_unix_ns
from exporter.config.setting import Given, parsed
from exporter.config.storage import HISTORY_PATH
from exporter.units import NANOSECONDS

HISTORY: Final = replace(HISTORY_PATH, parse=parsers.any_path, help="history written by `run`")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", default="5m", metavar="DURATION", help="how far to look back [5m]")
    parser.add_argument(
        "--workload",
        default="",
        metavar="SELECTOR",
        help="a rank, the prefix of a container or pod, or KEY=VALUE,… such as rank=3,node=gpu7",
    )
    parser.add_argument(
        "--recording", metavar="FILE", help="read a recording instead of the history; --since is ignored"
    )
    command_line.add_arguments(parser, [HISTORY])


def add_end(parser: argparse.ArgumentParser, meaning: str) -> None:
    parser.add_argument(
        "--at", metavar="TIME", help=f"{meaning}: 14:02, 2027-01-15T14:02:11Z, or 90m for 90 minutes ago [now]"
    )


def moment_unix_ns(arguments: argparse.Namespace, flag: str) -> int | None:
    """A time in the past; None if it is not given. Raises BadInput."""
    text = getattr(arguments, flag)
    return int(parsed(past_unix_ns, text, arguments.sources[flag])) if text else None


def end_for_nodes(arguments: argparse.Namespace) -> dict[str, str]:
    """--at as an argument that every node reads alike, whatever its time zone; none without it. Raises BadInput."""
    at_unix_ns = moment_unix_ns(arguments, "at")
    return {} if at_unix_ns is None else {"at": datetime.fromtimestamp(at_unix_ns / NANOSECONDS, UTC).isoformat()}


def since_seconds(arguments: argparse.Namespace) -> float:
    """Raises BadInput."""
    return float(parsed(parsers.duration, arguments.since, arguments.sources["since"]))


def history_path(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Path:
    """Raises BadInput."""
    path: Path = Given(command_line.texts(vars(arguments), [HISTORY]), environment).value(HISTORY)
    return path


def for_same_history(path: Path) -> str:
    """What another command needs to read it: ` --history.path=FILE`, as a shell takes it; "" for the default."""
    return "" if str(path) == HISTORY.default else f" --{HISTORY.flag}={shlex.quote(str(path))}"
