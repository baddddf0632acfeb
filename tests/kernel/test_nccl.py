"""NCCL calls in the running kernel: counts, bytes, communicators and ranks, for each way to create a communicator."""

from __future__ import annotations

import pytest

import gpustall_standin as standin
from exporter.kernel.abi import Api
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.process_rows import CommunicatorRow
from exporter.workloads.rank import Communicator, rank_from_communicators
from tests.support.traced import Tracer, eventually, tracer


class TestCounting:
    """For every attachment kind."""

    def test_collectives_and_their_bytes_are_counted(self, traced: Tracer) -> None:
        """23 all-reduces of 1 MiB."""
        run = traced.run("ncclAllReduce:23:1048576")

        row = run.row("ncclAllReduce")

        assert (row.calls, sum(row.slots), row.bytes) == (23, 23, 23 * 1048576)
        assert run.drops == {}

    @pytest.mark.parametrize(
        "operation",
        [
            "ncclAllGather",
            "ncclReduceScatter",
            "ncclBroadcast",
            "ncclReduce",
            "ncclAlltoAll",
            "ncclGather",
            "ncclScatter",
        ],
    )
    def test_arguments_of_each_collective_are_read(self, best_traced: Tracer, operation: str) -> None:
        """Bytes as counted by the program, and one communicator; for ncclReduce it is the seventh argument."""
        run = best_traced.run(f"{operation}:23:65536")

        keys = {key.communicator for key in run.reading.operations if OPERATIONS[key.operation].name == operation}

        assert run.row(operation).bytes == run.truths[0]["nccl_bytes"][operation]
        assert keys == {1}

    def test_nested_nccl_call_counts_no_bytes(self, best_traced: Tracer) -> None:
        """ncclBcast calls ncclBroadcast: both are counted, the bytes once."""
        run = best_traced.run("ncclBcast:23:65536")

        assert (run.row("ncclBcast").calls, run.row("ncclBcast").bytes) == (23, 23 * 65536)
        assert (run.row("ncclBroadcast").calls, run.row("ncclBroadcast").bytes) == (23, 0)

    def test_errors_are_counted_by_code(self, best_traced: Tracer) -> None:
        """Two of 23 fail with a system error."""
        run = best_traced.run(
            "ncclAllReduce:23:1024", environment={"STANDIN_FAIL": "ncclAllReduce:2:3,ncclAllReduce:2:4"}
        )

        assert run.errors() == {("ncclAllReduce", 2): 2}
        assert run.row("ncclAllReduce").bytes == 21 * 1024

    def test_nccl_inside_libtorch_cuda_is_traced(self) -> None:
        """PyTorch links NCCL into a library of another name."""
        with tracer() as torch:
            torch.attach(Api.NCCL, standin.build_dir() / "libtorch_cuda.so")
            run = torch.run("--ranks=1", "--steps=3", "--quiet", program="trainer-torch")

        assert run.row("ncclAllReduce").calls == run.truth("nccl", "ncclAllReduce")["count"] > 0


class TestCommunicators:
    """Rank, number of ranks and hash of live communicators."""

    @pytest.mark.parametrize("way", ["init_rank", "config", "scalable"])
    def test_rank_and_size_are_known_for_each_way_to_create(self, best_traced: Tracer, way: str) -> None:
        """Three processes: each has its own rank, all have the same hash."""
        rows = _communicators_alive(best_traced, f"--comm={way}", ranks=3)

        largest = [max(of_process, key=lambda row: (row.ranks, -row.created_ns)) for of_process in rows]

        assert sorted((row.rank, row.ranks) for row in largest) == [(0, 3), (1, 3), (2, 3)]
        assert len({row.hash for row in largest}) == 1
        assert largest[0].hash != 0

    def test_shrunk_communicator_has_contiguous_ranks(self, best_traced: Tracer) -> None:
        """Three ranks without the last: the other two are in a communicator of two, with one new hash."""
        rows = _communicators_alive(best_traced, "--comm=shrink", ranks=3, collectives=2)

        children = [of_process[1] for of_process in rows if len(of_process) == 2]

        assert sorted((row.rank, row.ranks) for row in children) == [(0, 2), (1, 2)]
        assert len({row.hash for row in children} | {rows[0][0].hash}) == 2

    def test_a_split_has_one_hash_on_all_ranks_of_a_colour(self, best_traced: Tracer) -> None:
        """Four ranks, two colours: two hashes, each on two ranks, and neither is the parent's."""
        rows = _communicators_alive(best_traced, "--comm=split", "--colors=2", ranks=4)

        parents = {of_process[0].hash for of_process in rows}
        children = sorted(of_process[1].hash for of_process in rows)

        assert len(parents) == 1
        assert children[0] == children[1] != children[2] == children[3]
        assert parents.isdisjoint(children)

    def test_rank_and_size_of_a_split_come_from_queries(self, best_traced: Tracer) -> None:
        """They are not in the arguments of ncclCommSplit, but in the results of ncclCommCount and ncclCommUserRank."""
        rows = _communicators_alive(best_traced, "--comm=split", "--colors=2", ranks=4)

        assert sorted((of_process[1].rank, of_process[1].ranks) for of_process in rows) == [
            (0, 2),
            (0, 2),
            (1, 2),
            (1, 2),
        ]

    def test_process_with_several_gpus_has_several_ranks(self, best_traced: Tracer) -> None:
        """ncclCommInitAll creates three ranks in one process."""
        (rows,) = _communicators_alive(best_traced, "--ranks-as=threads", "--comm=all", ranks=3)

        known = [Communicator(row.hash, row.rank, row.ranks, row.created_ns) for row in rows]

        assert sorted((row.rank, row.ranks) for row in rows) == [(0, 3), (1, 3), (2, 3)]
        assert rank_from_communicators(known) == ""

    def test_destroyed_communicator_has_no_row(self, best_traced: Tracer) -> None:
        """After a complete run there is none."""
        run = best_traced.run("ncclAllReduce:1:1024")

        assert run.reading.communicators == {}

    def test_communicator_whose_creation_was_not_traced_has_no_rank(self) -> None:
        """Only the collective is probed: it has an ordinal, but rank and hash are unknown."""
        with tracer() as half_blind:
            half_blind.attach_standin(only=("ncclAllReduce",))
            run = half_blind.run("ncclAllReduce:23:1024")

        ((row,),) = run.reading.communicators.values()

        assert (row.hash, row.rank, row.ranks, row.ordinal) == (0, -1, 0, 1)
        assert run.row("ncclAllReduce").calls == 23


def _communicators_alive(
    traced: Tracer, *flags: str, ranks: int, collectives: int | None = None
) -> list[list[CommunicatorRow]]:
    """Communicators of each process, read after the first collective of every rank and before any rank ends."""
    with traced.asleep(f"--ranks={ranks}", *flags, "ncclAllReduce:1:1024", "sleep:1:60s"):
        wanted = collectives or ranks
        eventually(lambda: _collectives(traced) == wanted, f"{wanted} ranks make a collective")
        return list(traced.tables.read_communicators().values())


def _collectives(traced: Tracer) -> int:
    operations = traced.tables.read().operations
    return sum(row.calls for key, row in operations.items() if OPERATIONS[key.operation].name == "ncclAllReduce")
