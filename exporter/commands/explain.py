"""`gpu-stall-exporter explain`: what stalled on this node recently, why, and what to do. Reads the history; needs no root."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from exporter.config import command_line, parsers
from exporter.config.setting import Given, parsed
from exporter.config.storage import HISTORY_PATH
from exporter.config.web import DEFAULT_URL
from exporter.confirm.intervention import PauseMethod
from exporter.errors import BadInput, NotPossibleHere, ProcessGone
from exporter.explain.explanation import Explanation
from exporter.explain.recorded import explain_recording
from exporter.explain.rendering import rendered
from exporter.explain.selection import Selection
from exporter.explain.stored import explain_stored, open_chain
from exporter.host.cgroup_paths import CgroupPaths
from exporter.host.processes import Processes
from exporter.kernel.facts import PID_NAMESPACE_OF_MACHINE
from exporter.recording.file import read
from exporter.scrape.http_get import parse_target
from exporter.terminal.appearance import columns

if TYPE_CHECKING:
    from exporter.confirm.experiment import Plan

HISTORY = replace(HISTORY_PATH, parse=parsers.any_path, help="history written by `run`")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", default="5m", metavar="DURATION", help="how far to look back [5m]")
    parser.add_argument(
        "--workload",
        default="",
        metavar="SELECTOR",
        help="a rank, the prefix of a container or pod, or KEY=VALUE,… such as rank=3,node=gpu7",
    )
    parser.add_argument("--per-process", action="store_true", help="add a table of processes")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format [text]")
    parser.add_argument(
        "--recording", metavar="FILE", help="explain a recording instead of the history; --since is ignored"
    )
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
        "--url", default=DEFAULT_URL, metavar="URL", help=f"metrics of the exporter, for --confirm [{DEFAULT_URL}]"
    )
    command_line.add_arguments(parser, [HISTORY])


def run(arguments: argparse.Namespace) -> int:
    """Returns 0, whatever was found."""
    if arguments.recording is not None:
        _print(_explain_recording(Path(arguments.recording), arguments.workload), arguments)
        return 0
    path: Path = Given(command_line.texts(vars(arguments), [HISTORY]), os.environ).value(HISTORY)
    if arguments.confirm is not None:
        _confirm(path, arguments)
        return 0
    since_seconds = parsed(parsers.duration, arguments.since, arguments.sources["since"])
    with_operations = arguments.per_process or arguments.format == "json"
    _print(explain_stored(path, since_seconds, arguments.workload, with_operations=with_operations), arguments)
    return 0


def _explain_recording(path: Path, workload: str) -> Explanation:
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
        raise NotPossibleHere("--confirm pauses processes of other users: only root may do that", remedy="use sudo")
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


def _ask_for_consent() -> None:
    if not sys.stdin.isatty():
        raise BadInput("--confirm asks for consent, and standard input is no terminal", remedy="use --yes")
    if input("Type yes to continue: ").strip() != "yes":
        raise BadInput("no consent: nothing was done")
