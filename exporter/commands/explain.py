"""`gpu-stall-exporter explain`: what stalled recently, why, and what to do, on this node or for the jobs of several nodes.

Reads the history, or asks the servers of nodes; needs no root.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from exporter.config import fleet_flags, recorded_flags
from exporter.config.fleet_flags import FleetFlags
from exporter.config.web import DEFAULT_URL
from exporter.confirm.intervention import PauseMethod
from exporter.errors import BadInput, NotPossibleHere, ProcessGone
from exporter.explain.comparison import compared
from exporter.explain.comparison_text import comparison_document, comparison_lines
from exporter.explain.explanation import Explanation
from exporter.explain.rendering import rendered
from exporter.explain.stored import explain_chain, explain_stored, open_chain
from exporter.fleet.asking import ask
from exporter.fleet.exchange import NodeRequest
from exporter.fleet.failure import SOME_FAILED
from exporter.fleet.fleet_document import document
from exporter.fleet.fleet_explanation import explained_fleet, price_of
from exporter.fleet.fleet_text import TEXT_INDENT, lines
from exporter.fleet.node_ranks import RANKS_PATH
from exporter.fleet.rank_report import decoded
from exporter.fleet.target import target_of
from exporter.history.selection import Selection
from exporter.host.cgroup_paths import CgroupPaths
from exporter.host.processes import Processes
from exporter.kernel.facts import PID_NAMESPACE_OF_MACHINE
from exporter.recording.file import read
from exporter.rules.cost import read as read_rates
from exporter.scrape.http_get import parse_target
from exporter.terminal.appearance import columns
from exporter.terminal.suggestion import suggest
from exporter.text.figures import duration, time_of_day
from exporter.text.shell import shell_word
from exporter.text.wrapping import wrapped

if TYPE_CHECKING:
    from exporter.confirm.experiment import Plan

_OF_ONE_NODE: Final = (
    *("recording", "at", "compare", "workload", "chain", "per_process", "confirm"),
    recorded_flags.HISTORY.flag,
)
"""Flags about the history of one node."""
_ALONE: Final = {
    "recording": ("at", "compare", "chain"),
    "confirm": ("at", "compare", "chain"),
    "chain": ("at", "compare", "workload"),
}
"""Flags that cannot be combined with these."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    recorded_flags.add_arguments(parser)
    recorded_flags.add_end(parser, "show the state at this time")
    parser.add_argument(
        "--compare", metavar="TIME", help="compare with the span of the same length that ended at this time"
    )
    parser.add_argument(
        "--chain",
        metavar="CHAIN",
        help="one chain, by the first characters of its id, since its onset; --since is ignored",
    )
    parser.add_argument("--per-process", action="store_true", help="add a table of processes")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format [text]")
    parser.add_argument(
        "--confirm",
        metavar="CHAIN",
        help="pause the culprit of an open chain for 2 s, measure the job's recovery (needs root)",
    )
    parser.add_argument(
        "--confirm-by",
        choices=[method.value for method in PauseMethod],
        help="how to pause the culprit [sched-idle if it shares the job's cgroup, else sigstop]",
    )
    parser.add_argument("--yes", action="store_true", help="skip the prompt of --confirm")
    parser.add_argument(
        "--rates", metavar="FILE", help="with --nodes: TOML file with GPU prices, for the cost in dollars"
    )
    fleet_flags.add_arguments(parser)
    parser.add_argument(
        "--url", default=DEFAULT_URL, metavar="URL", help=f"metrics of the exporter, for --confirm [{DEFAULT_URL}]"
    )


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, whatever was found; 4 if some of several nodes have failed."""
    _refuse_combinations(arguments)
    if (flags := fleet_flags.fleet_flags(arguments, os.environ)) is not None:
        return _explain_nodes(flags, arguments)
    if arguments.rates is not None:
        raise BadInput("--rates without --nodes", remedy="`gpu-stall-exporter rates` makes rules of prices")
    if arguments.recording is not None:
        _print(_explain_recording(Path(arguments.recording), arguments.workload), arguments)
        suggest(f"export {shell_word(f'--recording={arguments.recording}')}")
        return 0
    path = recorded_flags.history_path(arguments, os.environ)
    if arguments.confirm is not None:
        _confirm(path, arguments)
        return 0
    since_seconds = recorded_flags.since_seconds(arguments)
    at_unix_ns = recorded_flags.moment_unix_ns(arguments, "at")
    if (compared_unix_ns := recorded_flags.moment_unix_ns(arguments, "compare")) is not None:
        _compare(path, since_seconds, at_unix_ns, compared_unix_ns, arguments)
        return 0
    with_operations = arguments.per_process or arguments.format == "json"
    if arguments.chain is not None:
        found = explain_chain(path, arguments.chain, with_operations=with_operations)
    else:
        found = explain_stored(
            path, since_seconds, arguments.workload, with_operations=with_operations, at_unix_ns=at_unix_ns
        )
    if at_unix_ns is not None and arguments.format == "text":
        print(_as_of(at_unix_ns))
    _print(found, arguments)
    name = "worst-chains" if found.chains else "slow-ranks"
    suggest(f"query --name={name}{recorded_flags.for_same_history(path)}")
    return 0


def _refuse_combinations(arguments: argparse.Namespace) -> None:
    for flag, others in _ALONE.items():
        for other in others:
            if getattr(arguments, flag) is not None and getattr(arguments, other):
                raise BadInput(f"--{other} cannot be combined with --{flag}")


def _explain_nodes(flags: FleetFlags, arguments: argparse.Namespace) -> int:
    for flag in _OF_ONE_NODE:
        if vars(arguments)[flag]:
            shown = arguments.sources.get(flag, f"--{flag}")
            raise flags.refusal_of(shown, "use it on the node itself")
    since_seconds = recorded_flags.since_seconds(arguments)
    usd_per_hour = None if arguments.rates is None else price_of(read_rates(Path(arguments.rates)))
    target = target_of(flags, os.environ)
    request = NodeRequest(f"{RANKS_PATH}?{urlencode({'since': arguments.since})}")
    answers = ask(target.nodes, target.asked(request)._replace(compares_clocks=True), decoded)
    found = explained_fleet(answers, since_seconds, usd_per_hour)
    if flags.is_all_required and not found.is_complete:
        found = found.without_answers()
    if arguments.format == "json":
        print(json.dumps(document(found), indent=2))
    else:
        print("\n".join(part for line in lines(found) for part in wrapped(line, columns(), TEXT_INDENT)))
    suggest(f"query --name=worst-chains{fleet_flags.for_same_nodes(arguments)}")
    return 0 if found.is_complete else SOME_FAILED


def _compare(
    path: Path, since_seconds: float, at_unix_ns: int | None, compared_unix_ns: int, arguments: argparse.Namespace
) -> None:
    later = explain_stored(path, since_seconds, arguments.workload, with_operations=True, at_unix_ns=at_unix_ns)
    earlier = explain_stored(
        path,
        since_seconds,
        arguments.workload,
        with_operations=True,
        at_unix_ns=compared_unix_ns,
        may_be_empty=True,  # a workload that is new
    )
    comparison = compared(earlier, later)
    if arguments.format == "json":
        print(json.dumps(comparison_document(comparison), indent=2))
    else:
        print("\n".join(comparison_lines(comparison)))
    same = recorded_flags.for_same_history(path)
    suggest(f"explain --since={shell_word(arguments.since)} --per-process{same}")


def _as_of(at_unix_ns: int) -> str:
    now_unix_ns = time.time_ns()
    return f"As of {time_of_day(at_unix_ns, now_unix_ns, None)}, {duration(now_unix_ns - at_unix_ns)} ago:"


def _explain_recording(path: Path, workload: str) -> Explanation:
    # Imports the pipeline, which takes time that the other uses of the command save.
    from exporter.explain.recorded import explain_recording  # noqa: PLC0415

    try:
        return explain_recording(read(path), Selection.of(workload)).explanation
    except ValueError as error:
        raise BadInput(f"{path} cannot be replayed: {error}") from None


def _print(explanation: Explanation, arguments: argparse.Namespace) -> None:
    is_json = arguments.format == "json"
    print(rendered(explanation, is_json=is_json, per_process=arguments.per_process, columns=columns()))


def _confirm(path: Path, arguments: argparse.Namespace) -> None:
    # These import protobuf, which takes time and memory that the other uses of the command save.
    from exporter.confirm.experiment import consent_lines, is_unchanged, make_plan, run_experiment  # noqa: PLC0415
    from exporter.confirm.record import record  # noqa: PLC0415

    target = parse_target(arguments.url)
    chain = open_chain(path, arguments.confirm)
    if os.geteuid() != 0:
        raise NotPossibleHere(
            "--confirm pauses processes of other users: only root may do that", remedy="run it as root"
        )
    assert chain.advice is not None  # noqa: S101 - open_chain() refuses a chain without a culprit
    method = PauseMethod(arguments.confirm_by) if arguments.confirm_by else None
    if Path("/proc/self/ns/pid").stat().st_ino != PID_NAMESPACE_OF_MACHINE:
        raise NotPossibleHere(
            "--confirm identifies processes by the pids of the machine, and this is another pid namespace",
            remedy="run it on the node, or in a container with the node's pid namespace",
        )

    def plan_now() -> Plan:
        assert chain.advice is not None  # noqa: S101 - as above
        try:
            return make_plan(chain.advice, Processes(), method, CgroupPaths.of_machine().resolve)
        except ProcessGone:
            raise BadInput(f"the job of chain {arguments.confirm} has ended") from None

    plan = plan_now()
    print("\n".join(consent_lines(plan)))
    if not arguments.yes:
        _ask_for_consent()
    if not is_unchanged(plan, plan_now()):
        raise BadInput("a process has ended, or has moved to another cgroup, since it was listed: nothing was done")
    result = run_experiment(chain.advice, plan, target)
    print(result.outcome.value, result.measured, sep=": ")
    record(path, chain.run, chain.event, plan, result)
    suggest(f"explain --chain={chain.event.chain_id[:8]}{recorded_flags.for_same_history(path)}")


def _ask_for_consent() -> None:
    if not sys.stdin.isatty():
        raise BadInput("--confirm asks for consent, and standard input is not a terminal", remedy="use --yes")
    if input("Type yes to continue: ").strip() != "yes":
        raise BadInput("no consent: nothing was done")
