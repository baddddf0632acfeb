"""What is a process called in the labels? In: what the other modules of this folder found out. Out: one Identity."""

from __future__ import annotations

from exporter.model import Identity
from exporter.workloads.container import Container, container_label
from exporter.workloads.container_names import ContainerNames
from exporter.workloads.rank import Rank


def name_process(
    *, node: str, rank: Rank, communicator_rank: str, container: Container, place: ContainerNames | None = None
) -> Identity:
    """The identity of one process.

    rank: from the environment; it comes first, since it holds for the whole life of the process and for the whole job.
    communicator_rank: from NCCL; its largest communicator may still be a part of the job when the question is asked.
    place: what the orchestrator calls the container; without it namespace and pod stay empty, whatever a process says of itself
    in POD_NAME.
    """
    return name_container(node=node, container=container, place=place, rank=rank.rank or communicator_rank)


def name_container(*, node: str, container: Container, place: ContainerNames | None = None, rank: str = "") -> Identity:
    """The identity of a container as a whole; without one it is the node's."""
    label = container_label(container)
    if place is None:
        return Identity(node=node, rank=rank, container=label)
    return Identity(node=node, rank=rank, container=place.container or label, namespace=place.namespace, pod=place.pod)
