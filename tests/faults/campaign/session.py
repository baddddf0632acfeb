"""One session, live: a job under the kernel's programs with a recurring fault; and its file."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass, replace
from pathlib import Path

from tests.faults.campaign.gauges import Gauge, gauging
from tests.faults.episode import Episode
from tests.faults.job import Window
from tests.faults.recorder import attached, ticking
from tests.faults.recording import RecordedRun, run_of, written
from tests.faults.truth import make
from tests.support.standin_gpu import built

SUFFIX = ".session.xz"


@dataclass(frozen=True)
class Session:
    """A job that is over."""

    episode: Episode
    run: RecordedRun
    gauges: tuple[Gauge, ...]


def play(episode: Episode, folder: Path) -> Session:
    """folder: of private_standin(). Raises what truth.make() does."""
    built()
    with attached(folder) as traced, ticking(traced.kernel) as ticks, gauging(traced.tables) as gauges:
        result = make(episode, is_faulty=True, folder=folder)
    tgids = {final["rank"]: final["tgid"] for final in result.finals}
    steps = tuple(replace(step, loader_wait_ns=0, delay_ns=0, cpu_ns=0, runnable_ns=0) for step in result.steps)
    run = RecordedRun(steps, result.injections_ns, tgids, tuple(ticks))
    return Session(episode, run, tuple(gauges))


def save(session: Session, path: Path) -> None:
    """With the episode's windows: of its other parts the plan knows."""
    episode = session.episode
    windows = (episode.window.first, episode.window.end, episode.every, episode.repeats)
    lines = [written(session.run), {"gauges": session.gauges, "windows": windows}]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode(), preset=1))


def load(path: Path, episode: Episode) -> Session:
    """A session from its file. episode: of which it is; its windows are those it had when it was played."""
    with lzma.open(path, "rt", encoding="ascii") as file:
        run, rest = map(json.loads, file)
    first, end, every, repeats = rest["windows"]
    played = replace(episode, window=Window(first, end), every=every, repeats=repeats)
    return Session(played, run_of(run), tuple(Gauge(*gauge) for gauge in rest["gauges"]))
