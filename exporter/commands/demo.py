"""`gpu-stall-exporter demo`: a training job with a real fault, and what the exporter reports about it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.app import logs
from exporter.chains.event import ChainEvent
from exporter.config import parsers
from exporter.config.log import LogFormat, LogLevel
from exporter.demo.live import INSTALL, LiveRun, Play, Progress, find_play
from exporter.demo.scenarios import SCENARIOS, Scenario
from exporter.errors import BadInput
from exporter.explain import text
from exporter.explain.document import document
from exporter.explain.explanation import Explanation, explain
from exporter.explain.recorded import recall
from exporter.explain.selection import Selection
from exporter.recording import file as capsule_file

DEFAULT_SECONDS = 30.0
LEAST_SECONDS, MOST_SECONDS = 22.0, 55.0
"""A baseline takes eight seconds to learn; a capsule holds the last minute."""
_BAR_WIDTH = 24

Print = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "scenario", nargs="*", metavar="SCENARIO", help=f"{', '.join(SCENARIOS)}, or all [{next(iter(SCENARIOS))}]"
    )
    parser.add_argument("--duration", metavar="DURATION", help="length of a live demo, 22s to 55s [30s]")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text for people, or JSON [text]")
    parser.add_argument(
        "--replay",
        nargs="?",
        const="",
        metavar="CAPSULE",
        help="replay a recording, of the scenario or from this file [only where no live demo can run]",
    )
    parser.add_argument("--save", metavar="FILE", help="write the last minute of a live demo to this capsule")


def run(arguments: argparse.Namespace) -> int:
    """Returns 0 for every scenario that was played, whatever it found."""
    duration_seconds = _duration(arguments.duration)
    if arguments.replay:
        _refuse_others(arguments)
        return _replay_file(Path(arguments.replay), arguments.format)
    names = list(SCENARIOS) if arguments.scenario == ["all"] else arguments.scenario or ["incident"]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise BadInput(f"unknown scenario {unknown[0]!r}", remedy=f"choose one of {', '.join(SCENARIOS)}, all")
    if arguments.save and arguments.replay is not None:
        raise BadInput("--save cannot be combined with --replay")
    if arguments.save and len(names) > 1:
        raise BadInput(f"--save takes one scenario, not {len(names)}")
    for number, name in enumerate(names):
        if number:
            print()
        _show(SCENARIOS[name], duration_seconds, arguments)
    return 0


def _show(scenario: Scenario, duration_seconds: float, arguments: argparse.Namespace) -> None:
    is_json = arguments.format == "json"
    write: Print = _to_stderr if is_json else print
    write(f"{scenario.name}: {scenario.summary}.")
    play, reason = (None, "") if arguments.replay is not None else _live_play()
    if play is not None:
        _play(play, scenario, duration_seconds, write, is_json=is_json, save=arguments.save)
    elif arguments.save:
        raise BadInput(f"--save needs a live demo: {reason}")
    else:
        write(f"Replaying a recording{reason and f' because {reason}'}. The detection engine is the live one.")
        _replay(scenario.recording, write, is_json=is_json)
    write(scenario.lesson)


def _live_play() -> tuple[Play | None, str]:
    """How to play live, or None and the reason."""
    if os.geteuid() != 0:
        return None, "live demos need root"
    play = find_play()
    if play is None:
        return None, f"live demos are not installed ({INSTALL})"
    return play, ""


# ---- live


def _play(
    play: Play, scenario: Scenario, duration_seconds: float, write: Print, *, is_json: bool, save: str | None
) -> None:
    logs.set_up(LogLevel.ERROR, LogFormat.LOGFMT)
    progress_line = _ProgressLine(duration_seconds, sys.stderr.isatty())

    def watch(progress: Progress, events: Sequence[ChainEvent]) -> None:
        for event in events:
            progress_line.clear()
            write(_event_line(event, progress.elapsed_seconds))
        progress_line.show(progress)

    write(f"Live: a training job on a stand-in GPU, real probes, a real fault; about {duration_seconds:.0f} s.")
    live_run = play(scenario.name, duration_seconds, watch)
    progress_line.clear()
    if save:
        _save(live_run.capsule, Path(save), write)
    _print_explanation(_explain(live_run), write, is_json=is_json)


def _explain(live_run: LiveRun) -> Explanation:
    return explain(
        live_run.runs,
        live_run.events,
        live_run.windows,
        selection=Selection(),
        since_unix_ns=live_run.runs[-1].began_unix_ns,
        now_unix_ns=live_run.now_unix_ns,
    )


def _save(capsule: capsule_file.Recording | None, path: Path, write: Print) -> None:
    if capsule is None or not capsule.packed:
        write("Nothing was recorded: this node produces more rows per minute than a capsule keeps.")
        return
    try:
        capsule_file.write(capsule, path)
    except OSError as error:
        raise BadInput(f"--save: cannot write {path}: {error.strerror}") from None


class _ProgressLine:
    """A progress bar on a terminal; nothing elsewhere."""

    def __init__(self, duration_seconds: float, is_terminal: bool) -> None:
        self._duration_seconds = duration_seconds
        self._is_terminal = is_terminal

    def show(self, progress: Progress) -> None:
        if self._is_terminal:
            elapsed_seconds, step_seconds = progress.elapsed_seconds, progress.step_seconds
            step = f"step of {1000 * step_seconds:.1f} ms" if step_seconds else "no step yet"
            state = f"{step}{', with the fault' if progress.is_faulty else ''}"
            done = min(int(elapsed_seconds / self._duration_seconds * _BAR_WIDTH), _BAR_WIDTH)
            bar = f"[{'#' * done}{'.' * (_BAR_WIDTH - done)}]"
            sys.stderr.write(f"\r\033[K{bar} {elapsed_seconds:4.1f} s  {state}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _event_line(event: ChainEvent, elapsed_seconds: float) -> str:
    """` 12.3 s  chain opened: lock: …`; an event with evidence shows the first piece of it."""
    detail = event.evidence[0] if event.evidence else event.sentence
    return f"{elapsed_seconds:5.1f} s  chain {event.change.value}: {detail}"


# ---- recorded


def _replay_file(path: Path, form: str) -> int:
    write: Print = _to_stderr if form == "json" else print
    write(f"Replaying {path.name}. The detection engine is the live one.")
    _replay(path, write, is_json=form == "json")
    return 0


def _replay(path: Path, write: Print, *, is_json: bool) -> None:
    capsule = capsule_file.read(path)
    try:
        recalled = recall(capsule)
    except ValueError as error:
        raise BadInput(f"{path} cannot be replayed: {error}") from None
    for elapsed_seconds, event in recalled.told:
        write(_event_line(event, elapsed_seconds))
    _print_explanation(recalled.explanation, write, is_json=is_json)


def _print_explanation(explanation: Explanation, write: Print, *, is_json: bool) -> None:
    if is_json:
        print(json.dumps(document(explanation), indent=2))
        return
    write("")
    for line in text.lines(explanation):
        write(line)
    write("")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def _refuse_others(arguments: argparse.Namespace) -> None:
    for name in ("scenario", "duration", "save"):
        if getattr(arguments, name):
            raise BadInput(f"--replay CAPSULE cannot be combined with {name if name == 'scenario' else '--' + name}")


def _duration(given: str | None) -> float:
    if given is None:
        return DEFAULT_SECONDS
    try:
        duration_seconds = parsers.duration(given)
    except ValueError as error:
        raise BadInput(f"--duration: {given!r}: {error}") from None
    if not LEAST_SECONDS <= duration_seconds <= MOST_SECONDS:
        raise BadInput(f"--duration: {given!r}: must be {LEAST_SECONDS:.0f}s to {MOST_SECONDS:.0f}s")
    return duration_seconds
