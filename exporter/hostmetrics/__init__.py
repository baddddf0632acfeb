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
from exporter.collectors.block import Block
from exporter.collectors.cpu import Cpu
from exporter.collectors.gpu import Device, Devices
from exporter.collectors.memory import Memory
from exporter.host.cgroups import hierarchy_of
from exporter.host.disks import Disks
from exporter.host.machine import cpu_times
from exporter.host.processes import Processes
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.hostmetrics.network import network
from exporter.hostmetrics.swap import SwapReader
from exporter.hostmetrics.workload_cgroups import WorkloadCgroups
from exporter.kernel.abi import PID_NAMESPACE_OF_MACHINE
from exporter.kernel.maps import MapReader
from exporter.units import NANOSECONDS
from exporter.workloads.registry import Names


@dataclass(frozen=True, slots=True)
class HostMetrics:
    """What the collectors are made from. maps: of the kernel, by name. names: None where no orchestrator is asked.

    processes: reads /proc.
    with_network_namespaces: sockets in all of them, which takes CAP_SYS_ADMIN.
    devices: who samples GPUs; None where nobody does.
    """

    maps: Mapping[str, MapReader]
    node: str
    ttl_ns: int
    names: Names | None = None
    processes: Processes = Processes()  # noqa: RUF009 - frozen
    with_network_namespaces: bool = False
    devices: Devices | None = None

    def places(self, controller: str) -> CgroupLabels:
        """Of the hierarchy with this controller, as version 1 calls it."""
        return CgroupLabels(self.node, hierarchy_of(controller), self.names)


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
        around.names,
        around.processes.proc,
        with_namespaces=around.with_network_namespaces,
    )


def _device(around: HostMetrics) -> HostCollector | None:
    """The driver tells process ids of the machine, or of the namespace that it takes us to be in: only there these are one."""
    if around.devices is None:
        return None
    is_clear = Path("/proc/self/ns/pid").stat().st_ino == PID_NAMESPACE_OF_MACHINE
    return Device(around.places("cpu").machine, around.devices, around.ttl_ns, with_processes=is_clear)


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
    names: Names | None = None,
    *,
    processes: Processes | None = None,
    with_network_namespaces: bool = False,
    devices: Devices | None = None,
) -> dict[str, HostCollector]:
    """Those of the wanted collectors that tell of more than the traced processes."""
    around = HostMetrics(
        maps, node, int(ttl_seconds * NANOSECONDS), names, processes or Processes(), with_network_namespaces, devices
    )
    made = {name: make(around) for name, make in _MAKERS.items() if name in wanted}
    return {name: collector for name, collector in made.items() if collector is not None}
