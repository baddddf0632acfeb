"""Every metric once, by the collector that produces it. docs/metrics.md and the tests are made from it."""

from __future__ import annotations

from exporter.catalog import (
    allocator,
    block,
    chains,
    cluster,
    cpu,
    cuda,
    engine,
    gpu,
    graph,
    launch,
    memcpy,
    memory,
    nccl,
    network,
    own,
    process,
    sched,
    workload,
)
from exporter.catalog.metric import COMMON_LABELS, Kind, Metric

__all__ = [
    "COMMON_LABELS",
    "Kind",
    "Metric",
    "allocator",
    "block",
    "chains",
    "cluster",
    "cpu",
    "cuda",
    "engine",
    "gpu",
    "graph",
    "launch",
    "memcpy",
    "memory",
    "nccl",
    "network",
    "own",
    "process",
    "sched",
    "workload",
]

METRICS_OF_COLLECTOR: dict[str, tuple[Metric, ...]] = {
    "cuda": cuda.METRICS,
    "nccl": nccl.METRICS,
    "sched": sched.METRICS,
    "chains": chains.METRICS,
    "engine": engine.METRICS,
    "block": block.METRICS,
    "memory": memory.METRICS,
    "cpu": cpu.METRICS,
    "process": process.METRICS,
    "network": network.METRICS,
    "device": gpu.METRICS,
    "allocator": allocator.METRICS,
    "graph": graph.METRICS,
    "launch": launch.METRICS,
    "memcpy": memcpy.METRICS,
}
"""Collector -> the metrics that are missing if it is switched off or fails."""

WORKLOAD_METRICS = (
    *(metric for metrics in METRICS_OF_COLLECTOR.values() for metric in metrics),
    workload.INFO,
    *workload.COST_METRICS,
)

OWN_METRICS = own.MACHINE_METRICS + own.EXPORTER_METRICS
"""Metrics of the exporter and its machine, without the common labels."""

METRICS = WORKLOAD_METRICS + OWN_METRICS

CLUSTER_METRICS = cluster.METRICS
"""Metrics of another program, the store of many nodes."""
