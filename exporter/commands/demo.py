"""`gpu-stall-exporter demo`: a training job with a real fault, and what the exporter reports about it."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from exporter.app import logs
from exporter.config import parsers
from exporter.config.log import LogFormat, LogLevel
from exporter.config.setting import parsed
from exporter.demo.live import LiveRun
from exporter.demo.player import event_line, find_live_play, play_live, save_recording
from exporter.demo.scenarios import SCENARIOS, Scenario
from exporter.errors import BadInput
from exporter.explain.explanation import Explanation, explain
from exporter.explain.recorded import explain_recording
from exporter.explain.rendering import rendered
from exporter.history.selection import Selection
from exporter.recording.file import read
from exporter.terminal.appearance import columns
from exporter.terminal.suggestion import suggest
from exporter.text.printable import printable
from exporter.text.shell import shell_word
from exporter.text.wrapping import wrapped

DEFAULT_SCENARIO, ALL = "incident", "all"
DEFAULT_DURATION = "30s"
_ELAPSED = re.compile(r" *\d+\.\d s  ")
"""What event_line() begins with; further lines on a narrow terminal are indented by its width."""

SECONDS_MIN, SECONDS_MAX = 22.0, 55.0
"""A baseline takes eight seconds to learn; a recording holds the last minute."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s [flags] [SCENARIO ...]"
    parser.epilog = f"Scenarios: {', '.join(SCENARIOS)}."
    scenarios = parser.add_argument(
        "scenario", nargs="*", metavar="SCENARIO", help=f"a scenario, or {ALL} [{DEFAULT_SCENARIO}]"
    )
    scenarios.words = (*SCENARIOS, ALL)  # type: ignore[attr-defined] # for completion; choices would refuse an empty list
    parser.add_argument(
        "--duration", metavar="DURATION", help=f"length of a live demo, 22s to 55s [{DEFAULT_DURATION}]"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="output format [text]")
    parser.add_argument(
        "--replay",
        nargs="?",
        const="",
        metavar="RECORDING",
        help="replay this recording or that of the scenario [if no live demo is possible]",
    )
    parser.add_argument("--save", metavar="FILE", help="write the last minute of a live demo to this recording")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 for every scenario that was played, whatever it found."""
    duration_seconds = parsed(_duration, arguments.duration or DEFAULT_DURATION, arguments.sources["duration"])
    output = _Output(is_json=arguments.format == "json")
    if arguments.replay in (*SCENARIOS, ALL):  # the flag before the scenario; `./hang` is a file of that name
        arguments.scenario.insert(0, arguments.replay)
        arguments.replay = ""
    if arguments.replay:
        _refuse_others(arguments)
        path = Path(arguments.replay)
        output.write(f"Replaying {printable(path.name)}. The detection engine is the live one.")
        _replay(path, output)
        suggest(f"explain {shell_word(f'--recording={path}')}")
        return 0
    scenarios = _scenarios(arguments)
    for number, scenario in enumerate(scenarios):
        if number:
            print()
        output.write(f"{scenario.name}: {scenario.summary}.")
        _play(scenario, duration_seconds, arguments, output)
        output.write(scenario.lesson)
    suggest("check")
    return 0


class _Output:
    """Lines on standard output; with is_json a document there, and the lines on standard error."""

    def __init__(self, *, is_json: bool) -> None:
        self._is_json = is_json

    def write(self, line: str) -> None:
        elapsed = _ELAPSED.match(line)
        for part in wrapped(line, None if self._is_json else columns(), elapsed.end() if elapsed else 0):
            print(part, file=sys.stderr if self._is_json else sys.stdout)

    def explanation(self, found: Explanation) -> None:
        text = rendered(found, is_json=self._is_json, columns=columns())
        print(text if self._is_json else f"\n{text}\n")


def _play(scenario: Scenario, duration_seconds: float, arguments: argparse.Namespace, output: _Output) -> None:
    """Live where that is possible, else as a replay."""
    play, reason = (None, "") if arguments.replay is not None else find_live_play()
    if play is not None:
        logs.set_up(LogLevel.ERROR, LogFormat.LOGFMT)
        live_run = play_live(play, scenario, duration_seconds, output.write)
        if arguments.save:
            save_recording(live_run, Path(arguments.save), output.write)
        output.explanation(_explanation(live_run))
    elif arguments.save:
        raise BadInput(f"--save needs a live demo: {reason}")
    else:
        because = f" because {reason}" if reason else ""
        output.write(f"Replaying a recording{because}. The detection engine is the live one.")
        _replay(scenario.recording, output)


def _replay(path: Path, output: _Output) -> None:
    try:
        explained = explain_recording(read(path))
    except ValueError as error:
        raise BadInput(f"{path} cannot be replayed: {error}") from None
    for elapsed_seconds, event in explained.events:
        output.write(event_line(event, elapsed_seconds))
    output.explanation(explained.explanation)


def _explanation(live_run: LiveRun) -> Explanation:
    return explain(
        live_run.runs,
        live_run.events,
        live_run.windows,
        selection=Selection(),
        since_unix_ns=live_run.runs[-1].began_unix_ns,
        now_unix_ns=live_run.now_unix_ns,
    )


def _scenarios(arguments: argparse.Namespace) -> list[Scenario]:
    names = list(SCENARIOS) if arguments.scenario == [ALL] else arguments.scenario or [DEFAULT_SCENARIO]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise BadInput(f"unknown scenario {unknown[0]!r}", remedy=f"choose one of {', '.join(SCENARIOS)}, {ALL}")
    if arguments.save and arguments.replay is not None:
        raise BadInput("--save cannot be combined with --replay")
    if arguments.save and len(names) > 1:
        raise BadInput(f"--save takes one scenario, not {len(names)}")
    return [SCENARIOS[name] for name in names]


def _refuse_others(arguments: argparse.Namespace) -> None:
    others = {"a scenario": arguments.scenario, "--duration": arguments.duration, "--save": arguments.save}
    for name, value in others.items():
        if value:
            raise BadInput(f"--replay RECORDING cannot be combined with {name}")


def _duration(text: str) -> float:
    seconds = parsers.duration(text)
    if not SECONDS_MIN <= seconds <= SECONDS_MAX:
        raise ValueError(f"want {SECONDS_MIN:.0f}s to {SECONDS_MAX:.0f}s")
    return seconds
