"""identity: the labels of a process."""

from __future__ import annotations

from exporter.model import Identity
from exporter.workloads.container import Container
from exporter.workloads.identity import name_process
from exporter.workloads.rank import Rank

NO_CONTAINER, NO_RANK = Container(), Rank()


class TestNaming:
    def test_every_label_is_empty_when_nothing_is_known(self) -> None:
        """Empty, not absent."""
        found = name_process(node="", rank=NO_RANK, communicator_rank="", container=NO_CONTAINER)

        assert found == Identity(node="", rank="", container="", namespace="", pod="")

    def test_node_rank_and_container_are_named(self) -> None:
        """A Slurm job on a node."""
        found = name_process(
            node="gpu7", rank=Rank(rank="3"), communicator_rank="", container=Container(manager="slurm", job="job_123")
        )

        assert found == Identity(node="gpu7", rank="3", container="job_123")

    def test_rank_of_the_environment_is_preferred_to_nccl(self) -> None:
        """NCCL's largest communicator may be a part of the job."""
        assert name_process(node="", rank=Rank(rank="11"), communicator_rank="3", container=NO_CONTAINER).rank == "11"

    def test_rank_of_nccl_is_used_without_one_in_the_environment(self) -> None:
        """Ranks started by mp.spawn() have no variables of their own."""
        assert name_process(node="", rank=NO_RANK, communicator_rank="3", container=NO_CONTAINER).rank == "3"

    def test_values_are_printable_utf_8_of_at_most_128_characters(self) -> None:
        """For any input."""
        found = Identity(node="a\nb\x00\ud800\u202e", pod="ä" * 200)

        assert (found.node, found.pod) == ("a\ufffdb\ufffd\ufffd\ufffd", "ä" * 128)
        assert found.node.encode()
