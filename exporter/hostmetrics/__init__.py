"""What happens around the traced jobs: collectors of containers, devices and the machine, wired to what they read.

In: kernel tables, control groups, /proc, /sys, and what an orchestrator calls its containers. Out: collectors by name; each is
asked when somebody scrapes, and a failure of one costs its own metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from exporter.collectors import HostCollector
from exporter.gpu.model import GpuReading
from exporter.host.cgroups import hierarchy_of
from exporter.host.disks import Disks
from exporter.host.machine import cpu_times
from exporter.host.processes import Processes
from exporter.hostmetrics.block import Block
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.hostmetrics.cpu import Cpu
from exporter.hostmetrics.gpu import Gpu
from exporter.hostmetrics.memory import Memory
from exporter.hostmetrics.swap import SwapReader
from exporter.hostmetrics.traced_sockets import network
from exporter.hostmetrics.workload_cgroups import WorkloadCgroups
from exporter.kernel.abi import PID_NAMESPACE_OF_MACHINE
from exporter.kernel.maps import MapReader
from exporter.units import NANOSECONDS
from exporter.workloads.orchestrators.pod_cache import PodCache


@dataclass(frozen=True, slots=True)
class HostMetrics:
    """What the collectors are made from. maps: of the kernel, by name. pods: None without an orchestrator.

    processes: reads /proc.
    with_network_namespaces: sockets in all of them, which takes CAP_SYS_ADMIN.
    read_gpus: None where GPUs are not sampled.
    """

    maps: Mapping[str, MapReader]
    node: str
    ttl_ns: int
    pods: PodCache | None = None
    processes: Processes = Processes()  # noqa: RUF009 - frozen
    with_network_namespaces: bool = False
    read_gpus: Callable[[], GpuReading] | None = None

    def places(self, controller: str) -> CgroupLabels:
        """Of the hierarchy with this controller, as version 1 calls it."""
        return CgroupLabels(self.node, hierarchy_of(controller), self.pods)


def _block(around: HostMetrics) -> HostCollector:
    return Block(around.maps, around.places("blkio"), Disks().name, around.ttl_ns)


def _memory(around: HostMetrics) -> HostCollector:
    places = around.places("memory")
    groups = WorkloadCgroups(around.processes, places.hierarchy)
    swap = SwapReader(around.processes)
    return Memory(around.maps, places, groups, swap, around.ttl_ns)


def _cpu(around: HostMetrics) -> HostCollector:
    places = around.places("cpu")
    groups = WorkloadCgroups(around.processes, places.hierarchy)
    return Cpu(places.machine, groups, partial(cpu_times, around.processes.proc), around.ttl_ns)


def _network(around: HostMetrics) -> HostCollector:
    return network(
        around.node,
        around.ttl_ns,
        around.maps.get("retransmits"),
        around.pods,
        around.processes.proc,
        with_namespaces=around.with_network_namespaces,
    )


def _device(around: HostMetrics) -> HostCollector | None:
    """The driver tells process ids of the machine, or of the namespace that it takes us to be in: only there these are one."""
    if around.read_gpus is None:
        return None
    is_clear = Path("/proc/self/ns/pid").stat().st_ino == PID_NAMESPACE_OF_MACHINE
    return Gpu(around.places("cpu").machine, around.read_gpus, around.ttl_ns, with_processes=is_clear)


_MAKERS: dict[str, Callable[[HostMetrics], HostCollector | None]] = {
    "block": _block,
    "memory": _memory,
    "cpu": _cpu,
    "network": _network,
    "device": _device,
}
"""Collector -> how it is made; in the order in which they are asked."""


def host_collectors(
    wanted: Collection[str],
    maps: Mapping[str, MapReader],
    node: str,
    ttl_seconds: float,
    pods: PodCache | None = None,
    *,
    processes: Processes | None = None,
    with_network_namespaces: bool = False,
    read_gpus: Callable[[], GpuReading] | None = None,
) -> dict[str, HostCollector]:
    """Those of the wanted collectors that tell of more than the traced processes."""
    around = HostMetrics(
        maps, node, int(ttl_seconds * NANOSECONDS), pods, processes or Processes(), with_network_namespaces, read_gpus
    )
    made = {name: make(around) for name, make in _MAKERS.items() if name in wanted}
    return {name: collector for name, collector in made.items() if collector is not None}
