"""The causes that a diagnosis may name for what goes wrong inside a job; the first is what fits best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.faults.shapes.shape import InsideFault

EXPECTED: Final[Mapping[InsideFault, frozenset[str]]] = {
    # The step thread sleeps until another thread of its process releases the lock; no other process is involved, and a CPU is
    # free.
    InsideFault.GIL: frozenset({"lock"}),
    InsideFault.LOCK_HOLDER_SLEEPS: frozenset({"lock"}),
    InsideFault.LOCK_HOLDER_COMPUTES: frozenset({"lock"}),
    InsideFault.FILE_LOCK: frozenset({"lock"}),
    InsideFault.GC: frozenset({"own_code"}),
    InsideFault.SLEEP: frozenset({"own_wait"}),
    InsideFault.PYTHON: frozenset({"own_code"}),
    InsideFault.SUBPROCESS: frozenset({"own_wait"}),
    # Nearly all of the time passes in fsync().
    InsideFault.CHECKPOINT: frozenset({"block_io"}),
    InsideFault.EPOLL: frozenset({"own_wait"}),
    # Tracing computes on the host, then a graph is captured.
    InsideFault.RECOMPILATION: frozenset({"own_code", "graph_recapture"}),
    InsideFault.CHURN: frozenset({"allocation_churn"}),
    InsideFault.PAGEABLE_COPY: frozenset({"pageable_copy"}),
    InsideFault.SLOW_GPU: frozenset({"gpu"}),
    InsideFault.STRAGGLER: frozenset({"slow_rank", "peer_rank"}),
    InsideFault.HANG: frozenset({"nccl_hang", "stalled"}),
    InsideFault.LOG_PIPE: frozenset({"blocked_output"}),
    InsideFault.WORKER_SLEEPS: frozenset({"dataloader"}),
    InsideFault.WORKER_COMPUTES: frozenset({"dataloader"}),
    InsideFault.WORKER_READS_DISK: frozenset({"block_io"}),
    InsideFault.WORKER_FAULTS_PAGES: frozenset({"major_fault"}),
    InsideFault.PAUSE: frozenset({"own_wait"}),
    InsideFault.BATCH_SIZE: frozenset({"changed"}),
    InsideFault.LONGER_SEQUENCES: frozenset({"changed"}),
    InsideFault.EVALUATION: frozenset(),
    InsideFault.MORE_LOGGING: frozenset(),
    InsideFault.FEWER_REQUESTS: frozenset(),
    InsideFault.MORE_REQUESTS: frozenset(),
}
"""Names of exporter.causes.Cause. Of a decoy: what may be named, which is as good as no chain at all."""
