"""Reports of ranks by hand, for tests of verdicts about jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporter.causes import Cause
from exporter.fleet.rank_report import NodeReport, Place, RankReport, RankSlice, ReportedChain
from exporter.model import Identity

WORLD = 0xABC
"""Hash of the communicator of all ranks."""


def a_place(rank: int = 3, ranks: int = 4, **changes: Any) -> Place:
    """41 collectives, the last one a moment ago."""
    known: dict[str, Any] = {"communicator": WORLD, "collectives": 41, "still_seconds": 0.2}
    return Place(rank=rank, ranks=ranks, **(known | changes))


def slices(parts: Sequence[tuple[float, float]], lost: dict[str, float] | None = None) -> tuple[RankSlice, ...]:
    """15 s each, oldest first. parts: length of a step, and how much of it the rank waits. lost: seconds of each of the steps in
    the slices whose steps are longer than those of the first one.
    """
    found = []
    for number, (step, waiting) in enumerate(parts):
        count = int(15 / step)
        is_slow = step > parts[0][0]
        sums = {cause: one * count for cause, one in (lost or {}).items()} if is_slow else {}
        length = count * step
        ago = 15.0 * (len(parts) - 1 - number)
        found.append(RankSlice(ago, length, count, length, waiting * count, 0.1 * count, sums))
    return tuple(found)


def a_chain(cause: Cause = Cause.CPU_CONTENTION, **changes: Any) -> ReportedChain:
    """Open for a minute, half of the time is lost to it."""
    known: dict[str, Any] = {
        "chain_id": "1" * 32,
        "state": "open",
        "severity": "high",
        "began_seconds_ago": 60.0,
        "known_until_seconds_ago": 0.0,
        "lost_ratio": 0.5,
        "usual_step_seconds": 0.5,
        "culprit": "stress-ng",
        "peer_rank": "",
        "line": "step (train.py:142)",
        "detail": "",
    }
    return ReportedChain(cause=cause, **(known | changes))


def a_rank(rank: int = 3, **changes: Any) -> RankReport:
    """One of four, in steady steps of half a second, a fifth of which it waits."""
    known: dict[str, Any] = {
        "identity": Identity("gpu7", str(rank), "", "training", f"trainer-{rank}"),
        "tgid": 100 + rank,
        "comm": "python",
        "is_gone": False,
        "places": (a_place(rank),),
        "slices": slices([(0.5, 0.1)] * 20),
        "chains": (),
    }
    return RankReport(**(known | changes))


def a_node(*ranks: RankReport, **changes: Any) -> NodeReport:
    known: dict[str, Any] = {
        "since_seconds": 300.0,
        "is_recording": True,
        "detects_chains": True,
        "written_seconds_ago": 2.0,
        "ranks": ranks,
    }
    return NodeReport(**(known | changes))
