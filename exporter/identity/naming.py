"""What is a process called in the labels? In: what the other modules of this folder found out. Out: one Identity."""

from __future__ import annotations

from exporter.identity.container import Container, container_label
from exporter.identity.rank import Rank
from exporter.model import Identity


def name_process(*, node: str, rank: Rank, communicator_rank: str, container: Container) -> Identity:
    """The identity of one process.

    rank: from the environment; it comes first, since it holds for the whole life of the process and for the whole job.
    communicator_rank: from NCCL; its largest communicator may still be a part of the job when the question is asked.
    namespace and pod stay empty: only the kubelet knows them for sure; a process may set POD_NAME to anything.
    """
    return Identity(node=node, rank=rank.rank or communicator_rank, container=container_label(container))
