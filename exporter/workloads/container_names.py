"""Names of a container in its orchestrator."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ContainerNames:
    """namespace: of Kubernetes, or cluster of ECS. pod: its name, or task of ECS. container: "" while only the pod is known.

    pod_uid: of a pod of Kubernetes.
    """

    namespace: str
    pod: str
    container: str = ""
    pod_uid: str = field(default="", compare=False)
