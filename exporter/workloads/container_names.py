"""What an orchestrator calls the container that a process runs in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContainerNames:
    """namespace: of Kubernetes; the cluster of ECS. pod: its name; the task of ECS. container: "" while only the pod is known."""

    namespace: str
    pod: str
    container: str = ""
