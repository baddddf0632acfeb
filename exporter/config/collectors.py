"""Which collectors run, and what they collect only on request."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.config.parsers import switch
from exporter.config.setting import setting
from exporter.errors import BadInput

CALL_COLLECTORS = ("cuda", "nccl")
HOST_COLLECTORS = ("block", "memory", "cpu", "process", "network", "device")
GPU_COLLECTORS = ("allocator", "graph", "launch", "memcpy")
COLLECTORS = (*CALL_COLLECTORS, "sched", "chains", "engine", *HOST_COLLECTORS, *GPU_COLLECTORS)


def _collector(name: str, subject: str) -> bool:
    return setting(f"collector.{name}", "true", switch, "BOOL", subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """A field for each collector, and their options. Raises BadInput where no CUDA or NCCL call would be traced."""

    cuda: bool = _collector("cuda", "duration, count and errors of CUDA calls")
    nccl: bool = _collector("nccl", "duration, size and progress of NCCL collectives")
    sched: bool = _collector("sched", "thread states, and GPU time lost by cause")
    chains: bool = _collector("chains", "causal chains: incidents with cause and culprit (needs sched)")
    engine: bool = _collector("engine", "frameworks and iterations of serving engines")
    block: bool = _collector("block", "disk latency, and threads that wait for disks")
    memory: bool = _collector("memory", "memory pressure: reclaim, major faults, OOM kills, swap")
    page_allocations: bool = setting(
        "collector.memory.page-allocations",
        "false",
        switch,
        "BOOL",
        "count pages allocated for traced processes (20 to 60 ns per allocation)",
    )
    cpu: bool = _collector("cpu", "CPU throttling, steal and interrupts")
    process: bool = _collector("process", "starts and ends of processes")
    network: bool = _collector("network", "TCP retransmits, round-trip times and interface drops")
    network_namespaces: bool = setting(
        "collector.network.namespaces",
        "false",
        switch,
        "BOOL",
        "include sockets in other network namespaces (needs CAP_SYS_ADMIN)",
    )
    device: bool = _collector("device", "GPU clocks, throttling, temperature, memory, links and errors")
    allocator: bool = _collector("allocator", "GPU memory allocations and pinned host memory")
    graph: bool = _collector("graph", "capture, instantiation and launches of CUDA graphs")
    launch: bool = _collector("launch", "number and size of kernel launches")
    memcpy: bool = _collector("memcpy", "copies by direction and kind of host memory")

    def __post_init__(self) -> None:
        if not set(self.enabled) & set(CALL_COLLECTORS):
            raise BadInput(
                "no calls would be traced: both --collector.cuda and --collector.nccl are off",
                remedy="enable at least one of them",
            )

    @property
    def enabled(self) -> tuple[str, ...]:
        """The names of the collectors that run. Chains are made from what sched collects."""
        return tuple(name for name in COLLECTORS if getattr(self, name) and (name != "chains" or self.sched))
