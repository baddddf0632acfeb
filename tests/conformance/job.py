"""A traced program that has made a known number of calls of known length and then sleeps, so that metrics do not change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import gpustall_standin as standin
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

PATIENCE_SECONDS = 60
LAST_COUNT = "gpustall_nccl_operation_duration_seconds_count"
WAITS, WAIT_SECONDS = 11, 0.2
ORDERS = (
    "--sync=block",
    f"cudaDeviceSynchronize:{WAITS}:200ms",
    "cudaStreamSynchronize:199:2ms",
    "cudaMalloc:3:1048576",
    "cudaFree:1",
    "cuMemCreate:2:4096",  # not among the allocations whose size is seen, so the next frees are of unknown addresses
    "cudaFree:2",
    "cudaMemcpyAsync:23:4096:h2d",
    "cuMemcpyDtoH_v2:17:8192",
    "ncclAllReduce:23:4096",
    "sleep:1:3600s",  # with its communicator, which would be gone after the last order
)
FAILING = {"STANDIN_FAIL": "cudaMemcpyAsync:2:3,ncclAllReduce:6:5"}
"""The third copy runs out of memory, and the fifth reduction fails by a remote error."""


@dataclass(frozen=True)
class Job:
    """A program at rest. rank: unique. rested_unix_ns: since then nothing has changed."""

    exporter: Exporter
    rank: str
    rested_unix_ns: int


@contextmanager
def at_rest(*flags: str) -> Iterator[Job]:
    """An exporter, run with flags, that has traced every call of the program, those of its preparation included.

    A program that never begins keeps the libraries probed, so that the other is seen from its first call.
    """
    need_tracing()
    rank = fresh_rank()
    with running(*flags) as exporter, held_calls("ncclAllReduce:1:4096"):
        for name in standin.PROBED:
            path = standin.build_dir() / name
            eventually(lambda path=path: f"attached to {path}" in exporter.logs, f"{path} is probed")
        with held_calls(*ORDERS, rank=rank, environment=FAILING) as calls:
            calls.begin()
            last = {"operation": "ncclAllReduce", "rank": rank}
            eventually(
                lambda: exporter.scrape().total(LAST_COUNT, **last) == 23, "all calls are made", PATIENCE_SECONDS
            )
            yield Job(exporter, rank, time.time_ns())
