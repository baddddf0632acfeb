"""Plays a scenario, live or from its recording, and prints its chains and their explanation.

In: a Scenario or a recording. Out: lines of text on standard output, or one JSON document there and the lines on standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from exporter.app import logs
from exporter.chains.event import ChainEvent
from exporter.config.log import LogFormat, LogLevel
from exporter.demo.live import INSTALL, LiveRun, Play, Progress, find_play
from exporter.demo.progress_line import ProgressLine
from exporter.demo.scenarios import Scenario
from exporter.errors import BadInput
from exporter.explain import text
from exporter.explain.document import document
from exporter.explain.explanation import Explanation, explain
from exporter.explain.recorded import recall
from exporter.explain.selection import Selection
from exporter.recording import file as recording_file


class Player:
    """is_json: the explanation is a JSON document. save: where the recording of a live demo goes."""

    def __init__(self, *, is_json: bool, save: Path | None = None) -> None:
        self._is_json = is_json
        self._save = save

    def play(self, scenario: Scenario, duration_seconds: float) -> None:
        """Live where that is possible, else as a replay."""
        self._write(f"{scenario.name}: {scenario.summary}.")
        play, reason = _live_play()
        if play is not None:
            self._play_live(play, scenario, duration_seconds)
        elif self._save:
            raise BadInput(f"--save needs a live demo: {reason}")
        else:
            self._write(f"Replaying a recording because {reason}. The detection engine is the live one.")
            self._replay(scenario.recording)
        self._write(scenario.lesson)

    def replay(self, scenario: Scenario) -> None:
        """The recording of a scenario."""
        self._write(f"{scenario.name}: {scenario.summary}.")
        self._write("Replaying a recording. The detection engine is the live one.")
        self._replay(scenario.recording)
        self._write(scenario.lesson)

    def replay_file(self, path: Path) -> None:
        """Raises BadInput."""
        self._write(f"Replaying {path.name}. The detection engine is the live one.")
        self._replay(path)

    def _play_live(self, play: Play, scenario: Scenario, duration_seconds: float) -> None:
        logs.set_up(LogLevel.ERROR, LogFormat.LOGFMT)
        progress_line = ProgressLine(duration_seconds, is_terminal=sys.stderr.isatty())

        def watch(progress: Progress, events: Sequence[ChainEvent]) -> None:
            for event in events:
                progress_line.clear()
                self._write(_event_line(event, progress.elapsed_seconds))
            progress_line.show(progress)

        self._write(
            f"Live: a training job on a stand-in GPU, real probes, a real fault; about {duration_seconds:.0f} s."
        )
        live_run = play(scenario.name, duration_seconds, watch)
        progress_line.clear()
        if self._save:
            self._save_recording(live_run, self._save)
        self._print(_explanation(live_run))

    def _save_recording(self, live_run: LiveRun, path: Path) -> None:
        if live_run.capsule is None or not live_run.capsule.packed:
            self._write("Nothing was recorded: this node produces more rows per minute than a recording keeps.")
            return
        try:
            recording_file.write(live_run.capsule, path)
        except OSError as error:
            raise BadInput(f"--save: cannot write {path}: {error.strerror}") from None

    def _replay(self, path: Path) -> None:
        try:
            recalled = recall(recording_file.read(path))
        except ValueError as error:
            raise BadInput(f"{path} cannot be replayed: {error}") from None
        for elapsed_seconds, event in recalled.told:
            self._write(_event_line(event, elapsed_seconds))
        self._print(recalled.explanation)

    def _print(self, explanation: Explanation) -> None:
        if self._is_json:
            print(json.dumps(document(explanation), indent=2))
        else:
            print("\n".join(["", *text.lines(explanation), ""]))

    def _write(self, line: str) -> None:
        print(line, file=sys.stderr if self._is_json else sys.stdout)


def _live_play() -> tuple[Play | None, str]:
    """How to play live, or None and the reason."""
    if os.geteuid() != 0:
        return None, "live demos need root"
    play = find_play()
    if play is None:
        return None, f"live demos are not installed ({INSTALL})"
    return play, ""


def _explanation(live_run: LiveRun) -> Explanation:
    return explain(
        live_run.runs,
        live_run.events,
        live_run.windows,
        selection=Selection(),
        since_unix_ns=live_run.runs[-1].began_unix_ns,
        now_unix_ns=live_run.now_unix_ns,
    )


def _event_line(event: ChainEvent, elapsed_seconds: float) -> str:
    """` 12.3 s  chain opened: lock: …`; an event with evidence shows the first piece of it."""
    detail = event.evidence[0] if event.evidence else event.sentence
    return f"{elapsed_seconds:5.1f} s  chain {event.change.value}: {detail}"
