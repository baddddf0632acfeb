"""Live demos: the interface to the distribution gpu-stall-exporter-standin, which runs them on a stand-in GPU.

It is a separate distribution because it contains libraries with NVIDIA's names, which no production machine should have.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from exporter.chains.event import ChainEvent
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.recording.file import Recording

MODULE = "gpustall_standin.live"
INSTALL = "pip install 'gpu-stall-exporter[demo]'"


class Progress(NamedTuple):
    """State of the job. step_seconds: median of rank 0's latest steps, None before the first one."""

    elapsed_seconds: float
    is_faulty: bool
    steps: int
    step_seconds: float | None


class LiveRun(NamedTuple):
    """A finished live demo: what its history holds at now_unix_ns, and a recording of its last minute.

    recording: None when nothing was recorded.
    """

    runs: Sequence[Run]
    events: Sequence[RecordedEvent]
    windows: Sequence[RecordedWindows]
    now_unix_ns: int
    recording: Recording | None


Watch = Callable[[Progress, Sequence[ChainEvent]], None]
"""Called a few times a second with the job's state and the chain events since the previous call."""

Play = Callable[[str, float, Watch], LiveRun]
"""Plays a scenario, given by name, for about that many seconds. Raises NotPossibleHere or KernelRefused."""


def find_play(module: str = MODULE) -> Play | None:
    """None when the distribution is not installed."""
    try:
        play: Play = importlib.import_module(module).play
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return None
        raise
    return play
