"""What is a control group called in the labels?

In: the number of a group from a kernel table, or its path. Out: the Identity of its container, without a rank.
"""

from __future__ import annotations

from exporter.host.cgroups import Hierarchy
from exporter.model import Identity
from exporter.workloads.container import container_of_path
from exporter.workloads.identity import name_container
from exporter.workloads.orchestrators.pod_cache import PodCache


class CgroupLabels:
    """Of one hierarchy. pods: None without an orchestrator."""

    def __init__(self, node: str, hierarchy: Hierarchy | None, pods: PodCache | None = None) -> None:
        self.hierarchy = hierarchy
        self.machine = Identity(node)
        """What belongs to no container."""
        self._pods = pods

    def of_number(self, number: int) -> Identity:
        """The machine itself for a group in no container, and for one that cannot be found."""
        path = self.hierarchy.path_of(number) if self.hierarchy else None
        return self.of_path(path) if path is not None else self.machine

    def of_path(self, path: str) -> Identity:
        """Of the innermost container on the way."""
        container = container_of_path(path)
        place = self._pods.names_of(container) if self._pods is not None else None
        return name_container(node=self.machine.node, container=container, place=place)

    def is_gone(self, number: int) -> bool:
        """Whether no group has this number any more, so that nothing will be added to its rows."""
        return self.hierarchy is not None and self.hierarchy.is_gone(number)
