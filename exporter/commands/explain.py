"""`gpu-stall-exporter explain`: what was slow of late on this node, why, and what to do. Reads the history; needs no root."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from exporter.chains.chain import Change
from exporter.config import parsers
from exporter.config.storage import HISTORY_PATH
from exporter.config.web import DEFAULT_URL
from exporter.confirm.intervention import How
from exporter.confirm.outcome import ConfirmOutcome
from exporter.errors import BadInput, NotPossibleHere, ProcessGone
from exporter.explain import text
from exporter.explain.document import document
from exporter.explain.episodes import EpisodeState, EpisodeSummary
from exporter.explain.explanation import Explanation, explain
from exporter.explain.headline import who
from exporter.explain.recorded import recall
from exporter.explain.selection import Selection
from exporter.explain.table import rows
from exporter.history.append import stamp
from exporter.history.reader import opened
from exporter.host.processes import Processes
from exporter.recording.file import read
from exporter.scrape.http_get import parse_target
from exporter.units import NANOSECONDS

_MAX_NAMED = 12
_LEAST_OF_ID = 4


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
        "--confirm",
        metavar="CHAIN",
        help="prove it: hold the culprit of an open chain for two seconds, see whether the job recovers; asks first, needs root",
    )
    parser.add_argument(
        "--by", choices=[how.value for how in How], help="how it is held [what works on its control group]"
    )
    parser.add_argument("--yes", action="store_true", help="agree to --confirm beforehand")
    parser.add_argument("--url", default=DEFAULT_URL, help=f"of the exporter's metrics, for --confirm [{DEFAULT_URL}]")
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
    if arguments.confirm is not None:
        return _confirm(arguments)
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


def _confirm(arguments: argparse.Namespace) -> int:
    """Returns 0 when it was tried, whatever it has shown."""
    # It reads the exporter's metrics, for which protobuf is imported: nothing for the other commands.
    from exporter.confirm.experiment import HELD_SECONDS, choose, consent_text, names, prove  # noqa: PLC0415

    path, target = _path(getattr(arguments, "history.path")), parse_target(arguments.url)
    now_unix_ns = time.time_ns()
    with opened(path) as history:
        found = explain(
            history.runs(),
            history.told(now_unix_ns),
            (),
            selection=Selection(),
            since_unix_ns=now_unix_ns,
            now_unix_ns=now_unix_ns,
        )
    episode = _open_episode(found, arguments.confirm)
    if os.geteuid() != 0:
        raise NotPossibleHere("only root may hold the programs of others", remedy="run it with sudo")
    assert episode.advice is not None  # noqa: S101 - _open_episode() has seen to it
    processes = Processes()
    try:
        chosen = choose(episode.advice, processes, How(arguments.by) if arguments.by else None)
    except ProcessGone:
        raise BadInput(f"the job of chain {arguments.confirm} has ended") from None
    print("\n".join(consent_text(chosen)))
    if not arguments.yes:
        _ask()
    proof = prove(episode.advice, chosen, target)
    print(f"{proof.outcome.value}: {proof.told}")
    if proof.outcome is not ConfirmOutcome.UNDECIDED:
        told = f"{names(chosen.subjects)} held by {chosen.how.value} for {HELD_SECONDS:g} s: {proof.told}"
        change = Change(proof.outcome.value)
        stamp(path, episode.run, replace(episode.report, change=change, at_unix_ns=time.time_ns(), evidence=(told,)))
    return 0


def _open_episode(found: Explanation, given: str) -> EpisodeSummary:
    going_on = [episode for episode in found.episodes if episode.state is EpisodeState.GOING_ON]
    chosen = [one for one in going_on if len(given) >= _LEAST_OF_ID and one.report.chain_id.startswith(given)]
    if len(chosen) != 1:
        known = ", ".join(f"{one.report.chain_id[:8]} ({one.report.cause.value})" for one in going_on)
        raise BadInput(
            f"--confirm: no open chain begins with {given!r}", remedy=f"open are {known}" if known else "none is open"
        )
    (episode,) = chosen
    if episode.advice is None or not episode.advice.culprit_tgids:
        raise BadInput(f"chain {given} is {episode.report.cause.value}, and names no program that could be held")
    return episode


def _ask() -> None:
    if not sys.stdin.isatty():
        raise BadInput("nobody is there to agree", remedy="give --yes")
    if input("Type yes to go on: ").strip() != "yes":
        raise BadInput("not agreed: nothing was done")


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
    names = sorted({who(one.labels.identity, one.labels.tgid, one.labels.comm) for one in everybody.processes})
    if not names:
        return "no process made a traced call in that time; see --since"
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"there are {', '.join(names[:_MAX_NAMED])}{more}"


def _duration(given: str) -> float:
    try:
        return parsers.duration(given)
    except ValueError as error:
        raise BadInput(f"--since: {given!r}: {error}") from None


def _path(given: str) -> Path:
    if not given or "\0" in given:
        raise BadInput("--history.path: want the file that `run` writes")
    return Path(given)
