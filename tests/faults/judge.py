"""`python -m tests.faults.judge [NAME...]`: what the accounting says of each episode, beside what it really cost.

`--out DIR` keeps the recordings, `--replay DIR` judges kept ones, without running anything.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from exporter.causes import Cause
from tests.faults.books import Excess, excess, truth_of
from tests.faults.episode import End, Episode
from tests.faults.injectors import NotPossible
from tests.faults.job import COMM
from tests.faults.recording import SUFFIX, Recording, load
from tests.faults.registry import EPISODES
from tests.support.standin_gpu import MS, built

NOT_OF_THE_HOST = {
    None,
    Cause.GPU,
    Cause.ALLOCATION_CHURN,
    Cause.MEMORY_LEAK,
    Cause.PAGEABLE_COPY,
    Cause.GRAPH_RECAPTURE,
    Cause.GRAPH_ABANDONED,
    Cause.COLD_START,
    Cause.GPU_THROTTLED,
    Cause.GPU_CONTENTION,
    Cause.CUDA_OOM,
    Cause.CRASH,
    Cause.OOM_KILLED,
    Cause.SLOW_RANK,
    Cause.NCCL_HANG,
}
"""Nothing that the host of this rank did: the accounting must stay silent."""
NAMES_A_CULPRIT = {Cause.CPU_CONTENTION, Cause.CPU_OVERSUBSCRIBED, Cause.LOCK}
"""Causes for which the accounting has a culprit at all: programs that hold CPUs, threads and programs that hold locks."""
OF_A_LATE_RANK = "own_wait"
"""Cause of what the rank itself does that the others wait for: it sleeps."""

SILENCE = 0.05  # of the wall time, that may be booked where nothing should be
TOLERANCE = 0.25  # of the true loss
MAIN_SHARE = 0.8  # of what is booked, that the expected causes should have


@dataclass(frozen=True)
class Judgement:
    """One rank of one episode. expected: causes, none where nothing should be booked. true_ns: None when no step shows it."""

    episode: Episode
    rank: int
    expected: tuple[str, ...]
    true_ns: int | None
    noise_ns: int
    excess: Excess

    @property
    def error(self) -> float:
        """Error of the charged lost time, as a share of the true one."""
        return self.excess.sum_ns / self.true_ns - 1 if self.true_ns else 0.0

    @property
    def loudness(self) -> float:
        """Charged lost time as a share of wall time."""
        return self.excess.sum_ns / self.excess.wall_ns

    @property
    def culprit(self) -> str:
        """The culprit that the accounting should name; "" without one."""
        if self.episode.cause is Cause.CPU_OVERSUBSCRIBED:
            return COMM
        return self.episode.culprit if set(self.episode.causes) & NAMES_A_CULPRIT else ""

    def complaints(self) -> list[str]:
        """What is wrong; nothing when all is right."""
        if not self.expected:
            return [f"not silent: {100 * self.loudness:.0f} %"] if self.loudness > SILENCE else []
        found = []
        if self.true_ns is not None and abs(self.error) > TOLERANCE:
            found.append(f"loss {100 * self.error:+.0f} %")
        if self.excess.share(*self.expected) < MAIN_SHARE:
            found.append(f"cause {next(iter(self.excess.by_cause()), 'none')}")
        if self.culprit and self.excess.culprit(*self.expected) != self.culprit:
            found.append("culprit")
        return found


def judge(episode: Episode, recording: Recording) -> list[Judgement]:
    """A result for every rank."""
    truth = truth_of(episode, recording)
    found = []
    for rank in range(episode.ranks):
        expected: tuple[str, ...] = ()
        if episode.cause not in NOT_OF_THE_HOST:
            expected = tuple(cause.value for cause in episode.causes)
        elif rank == episode.culprit_rank:
            expected = (OF_A_LATE_RANK,)
        true_ns = truth.lost_ns(rank) if episode.end is End.WHOLE else None
        found.append(
            Judgement(episode, rank, expected, true_ns, truth.noise_ns(rank), excess(episode, recording, rank))
        )
    return found


HEAD = (
    "| episode | rank | true ms | noise ms | booked ms | error | of wall | expected | its share | booked as | culprit | verdict |\n"  # noqa: E501
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | --- | --- | --- |"
)


def row(one: Judgement) -> str:
    """One line of the table."""
    found = one.excess
    named = [f"{cause} {ns / MS:.0f}" for cause, ns in found.by_cause().items() if abs(ns) > 0.02 * abs(found.sum_ns)]
    culprit = found.culprit(*(one.expected or found.by_cause()))
    cells = (
        one.episode.name,
        one.rank,
        "-" if one.true_ns is None else f"{one.true_ns / MS:.0f}",
        f"{one.noise_ns / MS:.0f}",
        f"{found.sum_ns / MS:.0f}",
        f"{100 * one.error:+.0f} %" if one.expected and one.true_ns else "",
        f"{100 * one.loudness:.1f} %",
        "+".join(one.expected) or "silence",
        f"{100 * found.share(*one.expected):.0f} %" if one.expected else "",
        ", ".join(named[:4]),
        f"{culprit or '-'}{f' ({one.culprit})' if one.culprit and one.culprit != culprit else ''}",
        "; ".join(one.complaints()) or "right",
    )
    return f"| {' | '.join(map(str, cells))} |"


def recordings(
    names: list[str], replayed: Path | None, out: Path | None
) -> Iterator[tuple[Episode, Recording | NotPossible]]:
    """Recordings of each episode: loaded, or made now."""
    if replayed is not None:
        for name in names or sorted(path.name.removesuffix(SUFFIX) for path in replayed.glob(f"*{SUFFIX}")):
            yield EPISODES[name], load(replayed / f"{name}{SUFFIX}")
        return
    from tests.faults.recorder import private_standin, record  # the rest runs without the kernel's programs

    built()
    with tempfile.TemporaryDirectory() as folder:
        private_standin(Path(folder))
        for name in names or EPISODES:
            try:
                recording = record(EPISODES[name], Path(folder))
            except NotPossible as reason:
                yield EPISODES[name], reason
                continue
            if out is not None:
                recording.save(out)
            yield EPISODES[name], recording


def main() -> int:
    """Exit code 0: the table is a figure, not a test."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.judge", description=__doc__)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="DIR", help="keep the recordings there")
    where.add_argument("--replay", type=Path, metavar="DIR", help="judge the recordings there")
    parser.add_argument("names", nargs="*", metavar="NAME", help="episodes; all, or all that are there")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in EPISODES]
    if unknown:
        parser.error(f"no episode is called {unknown[0]}")
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    for episode, recording in recordings(asked.names, asked.replay, asked.out):
        if isinstance(recording, NotPossible):
            print(f"| {episode.name} | not possible here: {recording} |", flush=True)
            continue
        for one in judge(episode, recording):
            print(row(one), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
