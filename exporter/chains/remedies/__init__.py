"""What to do about a cause: a few sentences, and commands to paste that fit the node and the moment.

In: a Chain, the context of its process, and its identity. Out: text. Nothing is run.

host, job and gpu have the remedies; culprits has the acts on other processes; commands has the rules for what is safe to paste.
"""

from __future__ import annotations

from exporter.causes import Cause
from exporter.chains.chain import Chain
from exporter.chains.remedies import gpu, host, job
from exporter.chains.remedies.commands import Commands, Remedy
from exporter.chains.remedies.context import ProcessContext
from exporter.model import Identity
from exporter.text.printable import printable

__all__ = ["ProcessContext", "Remedy", "remedy_of"]


def remedy_of(chain: Chain, context: ProcessContext, identity: Identity | None = None) -> Remedy:
    """The remedy for the cause of a chain. identity: of its process, whose pod is named where there is one."""
    remedy = _REMEDIES[chain.cause](chain, Commands(context, identity))
    return remedy._replace(what=printable(remedy.what))


_REMEDIES = {
    Cause.CPU_CONTENTION: host.contention,
    Cause.CPU_OVERSUBSCRIBED: host.oversubscribed,
    Cause.CPU_QUOTA: host.quota,
    Cause.IRQ: host.irq,
    Cause.BLOCK_IO: host.block_io,
    Cause.MEMORY_RECLAIM: host.reclaim,
    Cause.MAJOR_FAULT: host.major_fault,
    Cause.NETWORK: host.network,
    Cause.EXPORTER: host.exporter,
    Cause.OOM_KILLED: host.oom_killed,
    Cause.LOCK: job.lock,
    Cause.DATALOADER: job.dataloader,
    Cause.PEER_RANK: job.peer,
    Cause.SLOW_RANK: job.slow_rank,
    Cause.NCCL_HANG: job.hang,
    Cause.GRAPH_RECAPTURE: job.recapture,
    Cause.GRAPH_ABANDONED: job.abandoned,
    Cause.COLD_START: job.cold_start,
    Cause.PAUSED: job.paused,
    Cause.CRASH: job.crash,
    Cause.OWN_CODE: job.own_code,
    Cause.OWN_WAIT: job.own_wait,
    Cause.BLOCKED_OUTPUT: job.blocked_output,
    Cause.STALLED: job.stalled,
    Cause.CHANGED: job.changed,
    Cause.CUDA_OOM: gpu.out_of_memory,
    Cause.ALLOCATION_CHURN: gpu.churn,
    Cause.MEMORY_LEAK: gpu.leak,
    Cause.PAGEABLE_COPY: gpu.pageable,
    Cause.PCIE: gpu.pcie,
    Cause.GPU_THROTTLED: gpu.throttled,
    Cause.GPU_CONTENTION: gpu.shared,
    Cause.GPU: gpu.slower,
}
