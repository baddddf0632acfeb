"""`gpu-stall-exporter explain`: what was slow of late on this node, why, and what to do. Reads the history; needs no root."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from exporter.capsule.file import read
from exporter.config import HISTORY_PATH, settings
from exporter.errors import BadInput
from exporter.explanation import text
from exporter.explanation.document import document
from exporter.explanation.finding import Explanation, explain
from exporter.explanation.selection import Selection
from exporter.explanation.table import rows
from exporter.explanation.verdict import who
from exporter.history.reader import opened
from exporter.replay import recall
from exporter.units import NANOSECONDS

HELP = "say what was slow of late, why, and what to do; needs no root"

_MAX_NAMED = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to look at, and the form of the answer."""
    parser.add_argument("--since", default="5m", metavar="DURATION", help="how far to look back, such as 5m or 1h [5m]")
    parser.add_argument(
        "--workload",
        default="",
        metavar="WHICH",
        help="KEY=VALUE,… of rank, container, pod, namespace, node and pid; or a rank, or the begin of a container or pod",
    )
    parser.add_argument("--per-process", action="store_true", help="a table of what each process did")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people, or JSON [text]")
    parser.add_argument(
        "--capsule",
        metavar="FILE",
        help="explain the rows of a capsule instead of the history; --since does not count then",
    )
    parser.add_argument(
        "--history.path",
        dest="history.path",
        default=HISTORY_PATH.default,
        metavar=HISTORY_PATH.metavar,
        help=f"the file that `run` writes [{HISTORY_PATH.default}]",
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, whatever was found."""
    if arguments.capsule is not None:
        return _explain_capsule(Path(arguments.capsule), arguments)
    since_seconds = _duration(arguments.since)
    selection = Selection.of(arguments.workload)
    is_json = arguments.format == "json"
    now_unix_ns = time.time_ns()
    since_unix_ns = now_unix_ns - int(since_seconds * NANOSECONDS)
    with opened(_path(getattr(arguments, "history.path"))) as history:
        runs, told = history.runs(), history.told(since_unix_ns)
        found = explain(
            runs,
            told,
            history.seen(since_unix_ns),
            selection=selection,
            since_unix_ns=since_unix_ns,
            now_unix_ns=now_unix_ns,
            with_operations=arguments.per_process or is_json,
        )
        if arguments.workload and not (found.processes or found.episodes):
            everybody = explain(
                runs,
                told,
                history.seen(since_unix_ns),
                selection=Selection(),
                since_unix_ns=since_unix_ns,
                now_unix_ns=now_unix_ns,
            )
            raise BadInput(f"--workload: no process is {arguments.workload!r}", remedy=_known(everybody))
    _print(found, arguments)
    return 0


def _explain_capsule(path: Path, arguments: argparse.Namespace) -> int:
    """The rows of a capsule, through the engine again; times are those of then."""
    try:
        found = recall(read(path), Selection.of(arguments.workload)).explanation
    except ValueError as error:
        raise BadInput(f"{path} cannot be replayed: {error}") from None
    _print(found, arguments)
    return 0


def _print(found: Explanation, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        print(json.dumps(document(found), indent=2))
    else:
        print("\n".join(_lines(found, per_process=arguments.per_process)))


def _lines(found: Explanation, *, per_process: bool) -> Sequence[str]:
    told = text.lines(found)
    if per_process and found.processes:
        told += ["", *rows(found.processes)]
    return told


def _known(everybody: Explanation) -> str:
    names = sorted({who(one.member.identity, one.member.pid, one.member.comm) for one in everybody.processes})
    if not names:
        return "no process made a traced call in that time; see --since"
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"there are {', '.join(names[:_MAX_NAMED])}{more}"


def _duration(given: str) -> float:
    try:
        return settings.duration(given)
    except ValueError as error:
        raise BadInput(f"--since: {given!r}: {error}") from None


def _path(given: str) -> Path:
    if not given or "\0" in given:
        raise BadInput("--history.path: want the file that `run` writes")
    return Path(given)
