"""Labels of a cgroup: the identity of the container that it belongs to, without a rank.

In: the id of a cgroup from a kernel table, or its path. Out: an Identity; that of the node for a cgroup in no container.
"""

from __future__ import annotations

import re
from typing import Final

from exporter.host.cgroups import Hierarchy
from exporter.model import Identity
from exporter.text.printable import printable
from exporter.text.reserved import NameOf, marked_word
from exporter.workloads.container import container_of_path, seen_from
from exporter.workloads.identity import name_container
from exporter.workloads.orchestrators.pod_cache import PodCache

_UNIT_WITHOUT_SERVICE: Final = re.compile(
    r"session-[0-9]+\.scope|user-[0-9]+\.slice|user@[0-9]+\.service|init\.scope|(?:system|user|machine)\.slice"
)


class CgroupLabels:
    """Cgroups of one hierarchy. pods: None without an orchestrator. machine_id: of the container that the machine is."""

    def __init__(
        self, node: str, hierarchy: Hierarchy | None, pods: PodCache | None = None, machine_id: str = ""
    ) -> None:
        self.hierarchy = hierarchy
        self.node = Identity(node)
        """The identity of what belongs to no container."""
        self._pods = pods
        self._machine_id = machine_id

    def identity_of(self, cgroup_id: int) -> Identity:
        """The identity of the node for a cgroup that is not found."""
        path = self.hierarchy.path_of(cgroup_id) if self.hierarchy else None
        return self.identity_of_path(path) if path is not None else self.node

    def identity_of_path(self, path: str) -> Identity:
        """The identity of the outermost container on the path."""
        container = seen_from(container_of_path(path), self._machine_id)
        names = self._pods.names_of(container) if self._pods is not None else None
        return name_container(node=self.node.node, container=container, names=names)

    def culprit_name(self, cgroup_id: int) -> str:
        """The pod, container, batch job or service that a cgroup belongs to; else its own name; "" for the root or if unknown.

        A name in the form of another kind is marked: `sshd.service (cgroup)`, `hypervisor (cgroup)`.
        """
        path = self.hierarchy.path_of(cgroup_id) if self.hierarchy else None
        if path is None:
            return ""
        identity = self.identity_of_path(path)
        if identity.pod:
            return f"{identity.namespace}/{identity.pod}"
        return identity.container or _own_name(path.rpartition("/")[2])

    def is_gone(self, cgroup_id: int) -> bool:
        """Whether no cgroup has this id any more, so that its rows will not grow."""
        return self.hierarchy is not None and self.hierarchy.is_gone(cgroup_id)


def _own_name(name: str) -> str:
    """Units that hold no service, such as a session, have the names that systemd gives them."""
    return name if _UNIT_WITHOUT_SERVICE.fullmatch(name) else marked_word(printable(name), NameOf.CGROUP)
