"""Labels of a cgroup: the identity of the container that it belongs to, without a rank.

In: the id of a cgroup from a kernel table, or its path. Out: an Identity; that of the node for a cgroup in no container.
"""

from __future__ import annotations

from exporter.host.cgroups import Hierarchy
from exporter.model import Identity
from exporter.workloads.container import container_of_path
from exporter.workloads.identity import name_container
from exporter.workloads.orchestrators.pod_cache import PodCache


class CgroupLabels:
    """Cgroups of one hierarchy. pods: None without an orchestrator."""

    def __init__(self, node: str, hierarchy: Hierarchy | None, pods: PodCache | None = None) -> None:
        self.hierarchy = hierarchy
        self.node = Identity(node)
        """The identity of what belongs to no container."""
        self._pods = pods

    def identity_of(self, cgroup_id: int) -> Identity:
        """The identity of the node for a cgroup that is not found."""
        path = self.hierarchy.path_of(cgroup_id) if self.hierarchy else None
        return self.identity_of_path(path) if path is not None else self.node

    def identity_of_path(self, path: str) -> Identity:
        """The identity of the innermost container on the path."""
        container = container_of_path(path)
        names = self._pods.names_of(container) if self._pods is not None else None
        return name_container(node=self.node.node, container=container, names=names)

    def culprit_name(self, cgroup_id: int) -> str:
        """The pod, container, batch job or service that a cgroup belongs to; else its own name; "" for the root or if unknown."""
        path = self.hierarchy.path_of(cgroup_id) if self.hierarchy else None
        if path is None:
            return ""
        identity = self.identity_of_path(path)
        if identity.pod:
            return f"{identity.namespace}/{identity.pod}"
        return identity.container or path.rpartition("/")[2]

    def is_gone(self, cgroup_id: int) -> bool:
        """Whether no cgroup has this id any more, so that its rows will not grow."""
        return self.hierarchy is not None and self.hierarchy.is_gone(cgroup_id)
