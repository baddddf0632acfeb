"""Plays a scenario live: prints the chains of the job as they come, and saves a recording of them.

In: a Scenario. Out: a LiveRun.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from exporter.chains.event import ChainEvent
from exporter.demo.live import INSTALL, LiveRun, Play, Progress, find_play
from exporter.demo.progress_line import ProgressLine
from exporter.demo.scenarios import Scenario
from exporter.errors import BadInput
from exporter.recording import file as recording_file

Write = Callable[[str], None]


def find_live_play() -> tuple[Play | None, str]:
    """How to play live, or None and the reason."""
    if os.geteuid() != 0:
        return None, "live demos need root"
    play = find_play()
    if play is None:
        return None, f"live demos are not installed ({INSTALL})"
    return play, ""


def play_live(play: Play, scenario: Scenario, duration_seconds: float, write: Write) -> LiveRun:
    """write: prints a line. Raises NotPossibleHere or KernelRefused."""
    progress_line = ProgressLine(duration_seconds, is_terminal=sys.stderr.isatty())

    def watch(progress: Progress, events: Sequence[ChainEvent]) -> None:
        for event in events:
            progress_line.clear()
            write(event_line(event, progress.elapsed_seconds))
        progress_line.show(progress)

    write(f"Live: a training job on a stand-in GPU, real probes, a real fault; about {duration_seconds:.0f} s.")
    live_run = play(scenario.name, duration_seconds, watch)
    progress_line.clear()
    return live_run


def save_recording(live_run: LiveRun, path: Path, write: Write) -> None:
    """Raises BadInput if the file cannot be written."""
    if live_run.recording is None or not live_run.recording.compressed_ticks:
        write("Nothing was recorded: this node produces more rows per minute than a recording keeps.")
        return
    try:
        recording_file.write(live_run.recording, path)
    except OSError as error:
        raise BadInput(f"--save: cannot write {path}: {error.strerror}") from None


def event_line(event: ChainEvent, elapsed_seconds: float) -> str:
    """` 12.3 s  chain opened: lock: …`; an event with evidence shows the first piece of it."""
    detail = event.evidence[0] if event.evidence else event.sentence
    return f"{elapsed_seconds:5.1f} s  chain {event.change.value}: {detail}"
