"""`gpu-stall-exporter demo`: a job under a real fault, and what the exporter says of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.app import logs
from exporter.chains.event import ChainEvent
from exporter.config import settings
from exporter.demo.scenarios import SCENARIOS, Scenario
from exporter.demo.stage import Progress
from exporter.errors import BadInput
from exporter.explain import text
from exporter.explain.document import document
from exporter.explain.explanation import Explanation
from exporter.explain.recorded import recall
from exporter.recording import file as capsule_file

DEFAULT_SECONDS = 30.0
LEAST_SECONDS, MOST_SECONDS = 22.0, 55.0
"""Less does not leave eight seconds to learn what is usual; a capsule holds the last minute."""
_PACE_SECONDS = 0.25
_BAR_WIDTH = 24

Print = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to play, and how it is told."""
    names = "; ".join(f"{one.name}: {one.says}" for one in SCENARIOS.values())
    parser.add_argument(
        "scenario", nargs="*", metavar="SCENARIO", help=f"[incident]; {names}. `all` plays them one after the other"
    )
    parser.add_argument("--duration", metavar="DURATION", help="of a live run, from 22s to 55s [30s]")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people, or JSON [text]")
    parser.add_argument(
        "--replay",
        nargs="?",
        const="",
        metavar="CAPSULE",
        help="run recorded rows through the same engine, of the scenario or of this file; without root that is what is done",
    )
    parser.add_argument("--save", metavar="FILE", help="keep the last minute of a live run as a capsule")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 when it was shown, whatever was found."""
    duration_seconds = _duration(arguments.duration)
    if arguments.replay:
        _refuse_others(arguments)
        return _replay_file(Path(arguments.replay), arguments.format)
    names = list(SCENARIOS) if arguments.scenario == ["all"] else arguments.scenario or ["incident"]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise BadInput(f"no scenario is called {unknown[0]!r}", remedy=f"there are {', '.join(SCENARIOS)}, and all")
    if arguments.save and len(names) > 1:
        raise BadInput("--save keeps one run, and several scenarios are named")
    for number, name in enumerate(names):
        if number:
            print()
        _show(SCENARIOS[name], duration_seconds, arguments)
    return 0


def _show(scenario: Scenario, duration_seconds: float, arguments: argparse.Namespace) -> None:
    is_json = arguments.format == "json"
    say: Print = _to_stderr if is_json else print
    say(f"{scenario.name}: {scenario.says}.")
    if arguments.replay is None:
        why = _why_not_live()
        if why is None:
            _play(scenario, duration_seconds, say, is_json=is_json, save=arguments.save)
            say(scenario.teaches)
            return
        say(f"A run that was recorded, since {why}; the engine is the same.")
    else:
        say("A run that was recorded; the engine is the same.")
    _replay(scenario.recording, say, is_json=is_json)
    say(scenario.teaches)


def _why_not_live() -> str | None:
    """None where it can be tried."""
    return None if os.geteuid() == 0 else "this user is not root"


# ---- live


def _play(scenario: Scenario, duration_seconds: float, say: Print, *, is_json: bool, save: str | None) -> None:
    # The kernel's programs and all that attaches them are for those who play live.
    from exporter.demo import live  # noqa: PLC0415

    logs.set_up("error", "logfmt")
    progress_line = _ProgressLine(duration_seconds, sys.stderr.isatty())

    def see(progress: Progress, fresh: Sequence[ChainEvent]) -> None:
        for report in fresh:
            progress_line.clear()
            say(_told(report, progress.elapsed_seconds))
        progress_line.show(progress)

    say(f"Live: a training job on a stand-in GPU, real probes, a real fault; about {duration_seconds:.0f} s.")
    shown = live.play(scenario, duration_seconds, see)
    progress_line.clear()
    if save:
        _save(shown.capsule, Path(save), say)
    _explain(shown.explanation, say, is_json=is_json)


def _save(capsule: capsule_file.Recording | None, path: Path, say: Print) -> None:
    if capsule is None or not capsule.packed:
        say("Nothing was recorded: more rows move on this node than are kept.")
        return
    try:
        capsule_file.write(capsule, path)
    except OSError as error:
        raise BadInput(f"--save: cannot write {path}: {error.strerror}") from None


class _ProgressLine:
    """One line that is written again and again; nothing where nobody would see it move."""

    def __init__(self, duration_seconds: float, is_terminal: bool) -> None:
        self._duration_seconds = duration_seconds
        self._is_terminal = is_terminal

    def show(self, progress: Progress) -> None:
        """How far it is, and how the job does."""
        if self._is_terminal:
            elapsed_seconds, step_seconds = progress.elapsed_seconds, progress.step_seconds
            step = f"step of {1000 * step_seconds:.1f} ms" if step_seconds else "no step yet"
            state = f"{step}{', with the fault' if progress.is_faulty else ''}"
            done = min(int(elapsed_seconds / self._duration_seconds * _BAR_WIDTH), _BAR_WIDTH)
            bar = f"[{'#' * done}{'.' * (_BAR_WIDTH - done)}]"
            sys.stderr.write(f"\r\033[K{bar} {elapsed_seconds:4.1f} s  {state}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Before another line."""
        if self._is_terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _told(report: ChainEvent, elapsed_seconds: float) -> str:
    """`12.3 s  chain opened: lock: …`; of evidence, which thread it is of."""
    told = report.evidence[0] if report.evidence else report.sentence
    return f"{elapsed_seconds:5.1f} s  chain {report.change.value}: {told}"


# ---- recorded


def _replay_file(path: Path, form: str) -> int:
    say: Print = _to_stderr if form == "json" else print
    say(f"The recorded rows of {path.name}, through the same engine.")
    _replay(path, say, is_json=form == "json")
    return 0


def _replay(path: Path, say: Print, *, is_json: bool) -> None:
    capsule = capsule_file.read(path)
    try:
        recalled = recall(capsule)
    except ValueError as error:
        raise BadInput(f"{path} cannot be replayed: {error}") from None
    for elapsed_seconds, report in recalled.told:
        say(_told(report, elapsed_seconds))
    _explain(recalled.explanation, say, is_json=is_json)


def _explain(explanation: Explanation, say: Print, *, is_json: bool) -> None:
    if is_json:
        print(json.dumps(document(explanation), indent=2))
        return
    say("")
    for line in text.lines(explanation):
        say(line)
    say("")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def _refuse_others(arguments: argparse.Namespace) -> None:
    """A capsule is no scenario."""
    for name in ("scenario", "duration", "save"):
        if getattr(arguments, name):
            raise BadInput(f"--replay CAPSULE and {name if name == 'scenario' else '--' + name} do not go together")


def _duration(given: str | None) -> float:
    if given is None:
        return DEFAULT_SECONDS
    try:
        duration_seconds = settings.duration(given)
    except ValueError as error:
        raise BadInput(f"--duration: {given!r}: {error}") from None
    if not LEAST_SECONDS <= duration_seconds <= MOST_SECONDS:
        raise BadInput(f"--duration: {given!r}: want {LEAST_SECONDS:.0f}s to {MOST_SECONDS:.0f}s")
    return duration_seconds
