"""A history for tests of `query`: two runs of the exporter, two ranks, an open and a resolved chain with evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.history.file_guard import claim
from exporter.history.store import Store
from exporter.history.window import OperationTime
from exporter.history.window_batch import WindowBatch
from tests.support.history import MS, NOON, SECOND, a_call_site, a_window, an_event, process_labels, resolved, times

HOUR_SECONDS = 3600

STACK = ("thread 101 in ncclAllReduce", "  libnccl.so.2+0x1234", "  train.py:77 in step")
_TEAMS = tuple(
    process_labels(rank, 100 * number, namespace=team, pod=f"trainer-{rank}")
    for number, (rank, team) in enumerate((("3", "team-a"), ("4", "team-b")), 1)
)


def an_hour(folder: Path, evidence: tuple[str, ...] = STACK) -> Path:
    """Six windows of two ranks until now, after a run that ended half an hour ago. The exporter was killed a moment ago.

    evidence: of the open chain.
    """
    path = folder / "state" / "history.sqlite"
    now_unix_ns = time.time_ns()
    now_seconds = (now_unix_ns - NOON) / SECOND
    file = claim(path)
    earlier = Store(file, 4 << 20, began_unix_ns=now_unix_ns - 3000 * SECOND, version="0.9", has_chains=False)
    earlier.close(now_unix_ns - 1800 * SECOND)
    store = Store(file, 4 << 20, began_unix_ns=now_unix_ns - 600 * SECOND, version="1.0", has_chains=True)
    over = an_event(now_seconds - 500, chain_id="2" * 32, lost_ns=90 * SECOND)
    opened = an_event(now_seconds - 30, lost_ns=4 * SECOND)
    known = an_event(now_seconds - 30, change=Change.EVIDENCE, evidence=evidence, lost_ns=4 * SECOND)
    store.write(
        [over, resolved(over, 300), opened, known],
        [_batch(now_seconds - 10 * back) for back in range(5, -1, -1)],
        now_unix_ns,
    )
    store.close()
    file.release()
    return path


def _batch(ended_seconds: float) -> WindowBatch:
    """Rank 3 loses a second, rank 4 nothing; rank 4 makes collectives, one of which fails."""
    third = a_window(ended_seconds, call_sites=(a_call_site(),))
    fourth = a_window(
        ended_seconds,
        process=2,
        labels=process_labels("4", 200),
        lost_ns={},
        culprits_ns=(),
        operations=(OperationTime("nccl", "ncclAllReduce", 100, 1, times(100, 3 * MS)),),
    )
    return WindowBatch(third.began_unix_ns, third.ended_unix_ns, [third, fourth])


def two_teams(folder: Path) -> Path:
    """A window of rank 3, of the namespace team-a, and of rank 4, of team-b. A chain of each is open, and one of no process."""
    path = folder / "state" / "history.sqlite"
    now_unix_ns = time.time_ns()
    now_seconds = (now_unix_ns - NOON) / SECOND
    events = [
        an_event(now_seconds - 30, chain_id=str(number) * 32, identity=labels.identity, tgid=labels.tgid)
        for number, labels in enumerate(_TEAMS, 1)
    ]
    events.append(an_event(now_seconds - 20, chain_id="3" * 32, identity=None, tgid=0))
    _write_teams(path, events, now_unix_ns)
    return path


def later_windows(path: Path) -> None:
    """A window of each rank of two_teams() that ends now, of another run of the exporter."""
    _write_teams(path, [], time.time_ns())


def _write_teams(path: Path, events: Sequence[ChainEvent], now_unix_ns: int) -> None:
    """The windows end now."""
    file = claim(path)
    store = Store(file, 4 << 20, began_unix_ns=now_unix_ns - 600 * SECOND, version="1.0", has_chains=True)
    now_seconds = (now_unix_ns - NOON) / SECOND
    windows = [a_window(now_seconds, process=number, labels=labels) for number, labels in enumerate(_TEAMS, 1)]
    store.write(events, [WindowBatch(windows[0].began_unix_ns, windows[0].ended_unix_ns, windows)], now_unix_ns)
    store.close()
    file.release()
