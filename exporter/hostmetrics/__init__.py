"""Collectors of containers, GPUs, disks and the node: what happens around the traced jobs.

In: kernel tables, cgroups, /proc, /sys, records of GPUs, names from an orchestrator. Out: collectors by name, which each scrape
runs; one that fails costs its own metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from exporter.gpu.model import GpuReading
from exporter.host.cgroups import Hierarchy, hierarchy_of, unified_hierarchy
from exporter.host.disks import Disks
from exporter.host.machine import cpu_times
from exporter.host.processes import Processes
from exporter.hostmetrics.block import Block
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.hostmetrics.cpu import Cpu
from exporter.hostmetrics.gpu import Gpu
from exporter.hostmetrics.memory import Memory
from exporter.hostmetrics.network import Network
from exporter.hostmetrics.swap import SwapReader
from exporter.hostmetrics.traced_sockets import TracedSockets, read_interfaces
from exporter.hostmetrics.workload_cgroups import WorkloadCgroups
from exporter.kernel.facts import PID_NAMESPACE_OF_MACHINE
from exporter.kernel.maps import MapReader
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.series.host_totals import TotalsByIdentity, TracedProcess
from exporter.units import NANOSECONDS
from exporter.workloads.machine import machine_container_id
from exporter.workloads.orchestrators.pod_cache import PodCache


class HostCollector(Protocol):
    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """Everything it knows, cumulative. now_ns: CLOCK_MONOTONIC. Called by one thread at a time."""
        ...

    @property
    def resets(self) -> int:
        """How often a source has started over so far."""
        ...


@dataclass(frozen=True, slots=True)
class _Sources:
    """What collectors are made from; see host_collectors()."""

    maps: Mapping[str, MapReader]
    shares: Shares
    node: str
    ttl_ns: int
    pods: PodCache | None
    processes: Processes
    with_network_namespaces: bool
    read_gpus: Callable[[], GpuReading] | None

    def labels(self, controller: str) -> CgroupLabels:
        """Labels of cgroups in the hierarchy with this controller, by its name in version 1."""
        return self.labels_in(hierarchy_of(controller))

    def labels_in(self, hierarchy: Hierarchy | None) -> CgroupLabels:
        """Labels of cgroups in a hierarchy."""
        return CgroupLabels(self.node, hierarchy, self.pods, machine_container_id(self.processes))


def _block(sources: _Sources) -> HostCollector:
    return Block(sources.maps, sources.labels("blkio"), Disks().name, sources.ttl_ns, shares=sources.shares)


def _memory(sources: _Sources) -> HostCollector:
    labels = sources.labels("memory")
    cgroups = WorkloadCgroups(sources.processes, labels.hierarchy)
    swap = SwapReader(sources.processes)
    return Memory(sources.maps, labels, cgroups, swap, sources.ttl_ns, shares=sources.shares)


def _cpu(sources: _Sources) -> HostCollector:
    cgroups = WorkloadCgroups(sources.processes, hierarchy_of("cpu"))
    return Cpu(Identity(sources.node), cgroups, partial(cpu_times, sources.processes.proc), sources.ttl_ns)


def _network(sources: _Sources) -> HostCollector:
    labels = sources.labels_in(unified_hierarchy())
    read_sockets = TracedSockets(sources.processes.proc, with_namespaces=sources.with_network_namespaces)
    retransmits = sources.maps.get("retransmits")
    return Network(labels, sources.ttl_ns, retransmits, read_sockets, read_interfaces, shares=sources.shares)


def _gpu(sources: _Sources) -> HostCollector | None:
    """The driver's process ids are those of the node, or of what it takes for our pid namespace: they agree only on the node."""
    if sources.read_gpus is None:
        return None
    is_on_node = Path("/proc/self/ns/pid").stat().st_ino == PID_NAMESPACE_OF_MACHINE
    return Gpu(Identity(sources.node), sources.read_gpus, sources.ttl_ns, with_processes=is_on_node)


_MAKERS: dict[str, Callable[[_Sources], HostCollector | None]] = {
    "block": _block,
    "memory": _memory,
    "cpu": _cpu,
    "network": _network,
    "device": _gpu,
}
"""Collector -> how it is made, in the order in which they run."""


def host_collectors(
    wanted: Collection[str],
    maps: Mapping[str, MapReader],
    node: str,
    ttl_seconds: float,
    pods: PodCache | None = None,
    *,
    shares: Shares,
    processes: Processes | None = None,
    with_network_namespaces: bool = False,
    read_gpus: Callable[[], GpuReading] | None = None,
) -> dict[str, HostCollector]:
    """The wanted collectors of this package.

    maps: of the kernel, by name. pods: None without an orchestrator. shares: of these maps. with_network_namespaces: sockets in
    all of them, which takes CAP_SYS_ADMIN. read_gpus: None where GPUs are not sampled.
    """
    ttl_ns = int(ttl_seconds * NANOSECONDS)
    sources = _Sources(maps, shares, node, ttl_ns, pods, processes or Processes(), with_network_namespaces, read_gpus)
    made = {name: make(sources) for name, make in _MAKERS.items() if name in wanted}
    return {name: collector for name, collector in made.items() if collector is not None}
