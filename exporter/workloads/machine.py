"""Whether the observed machine is itself a container, as the node of a kind cluster is.

In: the first process in /proc. Out: the id of its container; "" where it is in none.
"""

from __future__ import annotations

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.workloads.container import parse_cgroup

_INIT = 1


def machine_container_id(processes: Processes) -> str:
    """Also "" where the first process cannot be read."""
    try:
        container = parse_cgroup(processes.cgroup(_INIT))
    except (ProcessGone, NotPossibleHere):
        return ""
    return "" if container.pod_uid or container.owner else container.id
