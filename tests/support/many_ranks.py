"""A history of a node with many ranks, for tests of the dashboard: a hostile name, an open chain and past ones."""

from __future__ import annotations

import time
from pathlib import Path

from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, Severity
from exporter.history.file_guard import claim
from exporter.history.store import Store
from exporter.history.window import OperationTime
from exporter.history.window_batch import WindowBatch
from tests.support.history import MS, NOON, SECOND, a_call_site, a_window, an_event, process_labels, resolved, times
from tests.support.investigated import STACK

HOSTILE = "<img src=x onerror=alert(1)>"
"""The name of a pod. Kubernetes has none like it; a container runtime may."""


def many_ranks(folder: Path, ranks: int = 256, windows: int = 12) -> Path:
    """Windows of ten seconds until now. Rank 3 loses half of its time to a neighbour, the last rank waits for it."""
    path = folder / "state" / "history.sqlite"
    now_unix_ns = time.time_ns()
    now_seconds = (now_unix_ns - NOON) / SECOND
    file = claim(path)
    store = Store(file, 64 << 20, began_unix_ns=now_unix_ns - 3600 * SECOND, version="1.0", has_chains=True)
    identity = process_labels("3", 1003, pod=HOSTILE, namespace="team-a").identity
    opened = an_event(now_seconds - 95, identity=identity, tgid=1003, lost_ns=40 * SECOND)
    evidence = an_event(
        now_seconds - 95,
        change=Change.EVIDENCE,
        at_unix_ns=now_unix_ns - 60 * SECOND,
        severity=Severity.CRITICAL,
        evidence=STACK,
        identity=identity,
        tgid=1003,
        lost_share=0.53,
        lost_ns=44 * SECOND,
    )
    last = process_labels(str(ranks - 1), 1000 + ranks - 1, pod=f"trainer-{ranks - 1}").identity
    waiting = an_event(
        now_seconds - 90,
        chain_id="4" * 32,
        cause=Cause.PEER_RANK,
        effect=Effect.COLLECTIVE,
        peer="3",
        culprits=(),
        identity=last,
        tgid=1000 + ranks - 1,
        severity=Severity.MEDIUM,
        remedy="",
        commands=(),
    )
    events = [opened, evidence, waiting]
    for number, (cause, severity, ago, length) in enumerate(
        (
            (Cause.BLOCK_IO, Severity.MEDIUM, 2900, 240),
            (Cause.DATALOADER, Severity.LOW, 2100, 60),
            (Cause.CPU_QUOTA, Severity.HIGH, 1300, 400),
        ),
        5,
    ):
        past = an_event(
            now_seconds - ago,
            chain_id=str(number) * 32,
            cause=cause,
            severity=severity,
            shares=((cause.value, 0.9),),
            culprits=(),
            identity=process_labels(str(number), 1000 + number, pod=f"trainer-{number}").identity,
            tgid=1000 + number,
            remedy="Raise the limit.",
            commands=(),
        )
        events += [past, resolved(past, length)]
    store.write(events, [_batch(now_seconds - 10 * back, ranks) for back in range(windows - 1, -1, -1)], now_unix_ns)
    store.close()
    file.release()
    return path


def _batch(ended_seconds: float, ranks: int) -> WindowBatch:
    windows = [
        a_window(
            ended_seconds,
            process=rank + 1,
            labels=process_labels(
                str(rank), 1000 + rank, pod=HOSTILE if rank == 3 else f"trainer-{rank}", namespace="team-a"
            ),
            lost_ns=_lost_ns(rank, ended_seconds),
            culprits_ns=(("cpu_contention", "stress-ng", 4500 * MS),) if rank == 3 else (),
            operations=(
                OperationTime("runtime", "cudaStreamSynchronize", 500, 0, times(500, 10 * MS)),
                OperationTime("nccl", "ncclAllReduce", 100, int(rank == 3), times(100, 3 * MS)),
            ),
            call_sites=(a_call_site(),) if rank == 3 else (),
        )
        for rank in range(ranks)
    ]
    return WindowBatch(windows[0].began_unix_ns, windows[0].ended_unix_ns, windows)


def _lost_ns(rank: int, ended_seconds: float) -> dict[str, int]:
    """A few tenths of a percent everywhere, more here and there."""
    varying = int(ended_seconds) // 10 % 7
    if rank == 3:
        return {"cpu_contention": 4500 * MS, "lock": 300 * MS}
    return {"block_io": rank % 5 * 40 * MS, "dataloader": varying * 15 * MS, "network": (rank % 11 == 0) * 600 * MS}
