"""Rows of the cluster store, with values that differ where it matters, and stores that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from exporter.cluster.folder import StoreFolder
from exporter.cluster.records import Batch, ChainEventRow, ChainSpanRow, WindowRow
from exporter.cluster.store import ClusterStore, StoreLimits

SECOND = 10**9
HOUR = 3600 * SECOND
NOON = 1_800_014_400 * SECOND
"""2027-01-15 12:00:00 UTC."""
RUN = "00000000000000aa"
LIMITS = StoreLimits()


def window(began_seconds: int = 0, *, run: str = RUN, process: int = 1, **fields: Any) -> WindowRow:
    """A window of ten seconds that began so long after NOON."""
    began = NOON + began_seconds * SECOND
    row = WindowRow(
        run=run,
        process=process,
        began_unix_ns=began,
        ended_unix_ns=began + 10 * SECOND,
        node="gpu1",
        rank="3",
        container="0123456789ab",
        namespace="ml",
        pod="trainer-0",
        pid=4032,
        command="python",
        job="00000000000000ff",
        duration_seconds=10.0,
        steps=50,
        step_seconds=9.5,
        bucket_first=161,
        bucket_counts=(3, 0, 47),
        lost_causes=("cpu_contention", "io"),
        lost_seconds=(1.25, 0.5),
        culprit_causes=("cpu_contention",),
        culprit_names=("stress-ng",),
        culprit_seconds=(1.25,),
        states=("running", "runnable"),
        state_seconds=(8.0, 1.25),
        communicator_hashes=("00000000000000ff", "00000000000000fe"),
        communicator_ranks=(3, 0),
        communicator_sizes=(8, 2),
        communicator_operations=(700, 20),
        communicator_lags=(0.25, None),
        call_apis=("cuda",),
        call_operations=("cudaLaunchKernel",),
        call_counts=(1000,),
        call_errors=(0,),
        call_timed=(500,),
        call_seconds=(0.125,),
        overhead_seconds=None,
    )
    return row._replace(**fields)


def chain_event(change: str = "opened", **fields: Any) -> ChainEventRow:
    row = ChainEventRow(
        chain_id="730447a0730447a0730447a0730447a0",
        change=change,
        at_unix_ns=NOON,
        observed_unix_ns=NOON + SECOND,
        node="gpu1",
        rank="3",
        container="",
        namespace="ml",
        pod="trainer-0",
        pid=4032,
        cause="cpu_contention",
        effect="launch",
        severity="high",
        culprit="stress-ng",
        peer="",
        detail="",
        end_reason="",
        lost_share=0.46,
        lost_seconds=3.5,
        contribution=0.9,
        duration_seconds=7.0,
        remedy="Pin it elsewhere.",
        commands=("taskset -pc 0 77",),
        sentence="cpu_contention: up to 46 % of the time is lost to it",
    )
    return row._replace(**fields)


def chain_span(**fields: Any) -> ChainSpanRow:
    row = ChainSpanRow(
        chain_id="730447a0730447a0730447a0730447a0",
        began_unix_ns=NOON,
        ended_unix_ns=NOON + 60 * SECOND,
        node="gpu1",
        rank="3",
        container="",
        namespace="ml",
        pod="trainer-0",
        pid=4032,
        cause="cpu_contention",
        effect="launch",
        severity="high",
        culprit="stress-ng",
        peer="",
        detail="",
        end_reason="recovered",
        lost_share=0.46,
        lost_seconds=30.0,
        contribution=0.9,
        duration_seconds=60.0,
        remedy="Pin it elsewhere.",
        commands=(),
        error="cpu_contention",
        change_names=("opened",),
        change_unix_ns=(NOON,),
        change_causes=("cpu_contention",),
        change_severities=("high",),
        change_lost_shares=(0.46,),
    )
    return row._replace(**fields)


def batch(*windows: WindowRow, sender: str = "node", arrived_unix_ns: int = NOON, **rows: Any) -> Batch:
    return Batch(sender, arrived_unix_ns, windows, **rows)


@contextmanager
def store_at(path: Path, now_unix_ns: int = NOON, limits: StoreLimits = LIMITS) -> Iterator[ClusterStore]:
    """A store whose folder is locked until the end of the block."""
    folder = StoreFolder(path)
    try:
        store = ClusterStore(folder, limits, now_unix_ns)
        try:
            yield store
        finally:
            store.close()
    finally:
        folder.close()


def rows_of(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Rows of all segments of a store that no program writes to, in their order."""
    found: list[tuple[Any, ...]] = []
    for segment in sorted(path.glob("*.duckdb")):
        with duckdb.connect(segment, read_only=True) as connection:
            found += connection.execute(query).fetchall()
    return found
