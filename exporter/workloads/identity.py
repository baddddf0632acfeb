"""The identity of a process: the labels of its series. In: what the other modules of this folder found. Out: one Identity."""

from __future__ import annotations

from exporter.model import Identity
from exporter.text.reserved import NameOf, marked
from exporter.workloads.container import Container, container_label
from exporter.workloads.container_names import ContainerNames
from exporter.workloads.rank import Rank


def name_process(
    *, node: str, rank: Rank, communicator_rank: str, container: Container, names: ContainerNames | None = None
) -> Identity:
    """The identity of one process.

    rank: from the environment; it takes precedence, since it holds for the whole life of the process and for the whole job.
    communicator_rank: from NCCL, whose largest communicator may be smaller than the job at that time.
    names: from the orchestrator; without them namespace and pod are empty, even when the process has POD_NAME in its environment.
    """
    return name_container(node=node, container=container, names=names, rank=rank.rank or communicator_rank)


def name_container(*, node: str, container: Container, names: ContainerNames | None = None, rank: str = "") -> Identity:
    """The identity of a container as a whole; of the node without a container."""
    label = container_label(container)
    if names is None:
        return Identity(node=node, rank=rank, container=label)
    name = marked(names.container, NameOf.CONTAINER)
    return Identity(node=node, rank=rank, container=name or label, namespace=names.namespace, pod=names.pod)
