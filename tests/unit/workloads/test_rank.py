"""rank: the rank of a process, or that it is unknown."""

from __future__ import annotations

import pytest

from exporter.workloads.rank import ENVIRONMENT_NAMES, Rank, rank_from_communicators, rank_from_environment

STEP = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "3"}


class TestEnvironment:
    """Variables of launchers."""

    @pytest.mark.parametrize(
        ("rank", "local_rank", "world_size"),
        [
            ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
            ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE"),
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
            ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),
            ("MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_SIZE"),
            ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
            ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE"),
            ("FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE"),
        ],
    )
    def test_variables_of_each_launcher(self, rank: str, local_rank: str, world_size: str) -> None:
        """Rank 11 of 16, the fourth of its node."""
        environment = {rank: "11", local_rank: "3", world_size: "16"}

        assert rank_from_environment(environment) == Rank("11", "3", "16", source=rank)
        assert set(environment) <= ENVIRONMENT_NAMES

    def test_family_order_decides_and_families_do_not_mix(self) -> None:
        """torchrun within srun: one task on each of two nodes, eight ranks below each."""
        environment = {"RANK": "11", "WORLD_SIZE": "16", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
        environment |= {"SLURM_STEP_ID": "0", "SLURM_LOCALID": "0"}

        assert rank_from_environment(environment) == Rank("11", "", "16", source="RANK")

    def test_family_with_the_same_rank_fills_the_gaps(self) -> None:
        """srun --mpi=pmix sets the rank twice, size and local rank only as Slurm's."""
        environment = {"PMIX_RANK": "11", "SLURM_PROCID": "11", **STEP}

        assert rank_from_environment(environment) == Rank("11", "3", "16", source="PMIX_RANK")

    @pytest.mark.parametrize("rank", ["0", "5"])
    def test_rank_of_several_comes_before_rank_0_of_1(self, rank: str) -> None:
        """mpirun -n 8 in a pod of one replica, whose variables all ranks inherit."""
        environment = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
        of_mpi = {"PMI_RANK": rank, "PMI_SIZE": "8", "MPI_LOCALRANKID": rank}

        assert rank_from_environment(environment) == Rank("0", "0", "1", source="RANK")
        assert rank_from_environment(environment | of_mpi) == Rank(rank, rank, "8", source="PMI_RANK")

    def test_rank_0_of_1_comes_before_a_rank_without_a_size(self) -> None:
        """Open MPI sets both."""
        environment = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1", "PMIX_RANK": "0"}

        assert rank_from_environment(environment) == Rank("0", "", "1", source="OMPI_COMM_WORLD_RANK")

    @pytest.mark.parametrize(
        "value", ["", " 3", "3 ", "+3", "-1", "3.0", "0x3", "1_0", "\u0663", "10000001", "0" * 9, "nan", "3\n"]
    )
    def test_malformed_rank_counts_as_absent(self, value: str) -> None:
        """The next family decides."""
        environment = {"RANK": value, "PMI_RANK": "5"}

        assert rank_from_environment({"RANK": value}) == Rank()
        assert rank_from_environment(environment) == Rank("5", source="PMI_RANK")

    @pytest.mark.parametrize(("value", "rank"), [("0", "0"), ("10000000", "10000000"), ("007", "7")])
    def test_decimal_numbers_up_to_ten_million_are_ranks(self, value: str, rank: str) -> None:
        """Leading zeros do not make another rank."""
        assert rank_from_environment({"RANK": value}).rank == rank

    def test_rank_not_below_its_size_is_not_used(self) -> None:
        """One launcher has set RANK, another WORLD_SIZE."""
        assert rank_from_environment({"RANK": "8", "WORLD_SIZE": "8"}) == Rank()

    def test_malformed_size_is_unknown(self) -> None:
        """The rank is still used."""
        assert rank_from_environment({"RANK": "8", "WORLD_SIZE": "many"}) == Rank("8", source="RANK")

    def test_size_and_local_rank_need_a_rank(self) -> None:
        assert rank_from_environment({"WORLD_SIZE": "8", "LOCAL_RANK": "3"}) == Rank()


class TestSlurm:
    """SLURM_PROCID, which a batch script has as well."""

    def test_task_of_a_step_is_a_rank(self) -> None:
        """srun -n16."""
        assert rank_from_environment({"SLURM_PROCID": "0", **STEP}) == Rank("0", "3", "16", source="SLURM_PROCID")

    @pytest.mark.parametrize(
        "environment",
        [
            {},
            {"SLURM_NTASKS": "1"},
            {"SLURM_NTASKS": "16"},
            {"SLURM_STEP_ID": "0"},
            {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "1"},
            {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "16"},
        ],
        ids=["alone", "one task", "batch script of a large job", "no size", "srun -n1", "srun -n1 in a large job"],
    )
    def test_batch_script_and_single_task_are_not_rank_0(self, environment: dict[str, str]) -> None:
        """Everything that they start inherits SLURM_PROCID=0."""
        assert rank_from_environment({"SLURM_PROCID": "0", **environment}).rank == ""


class TestRunId:
    @pytest.mark.parametrize(
        ("value", "run_id"),
        [("llama-7b", "llama-7b"), ("none", ""), ("a\x00\ud800b", "a\ufffd\ufffdb"), ("x" * 200, "x" * 128)],
    )
    def test_run_id_is_printable_and_short(self, value: str, run_id: str) -> None:
        """torchrun sets "none" for a run without an id."""
        assert rank_from_environment({"TORCHELASTIC_RUN_ID": value}).run_id == run_id


class TestCommunicators:
    """The rank in NCCL's communicators: rows of (hash, rank, nranks, created_ns)."""

    @pytest.mark.parametrize(
        ("rows", "rank"),
        [
            ([], ""),
            ([(1, 3, 8, 100)], "3"),
            ([(1, 0, 2, 50), (2, 5, 16, 100), (3, 1, 4, 10)], "5"),
            ([(1, 3, 8, 200), (2, 5, 8, 100)], "5"),
            ([(1, 3, 8, 100), (1, 3, 8, 200)], "3"),
            ([(1, 0, 8, 100), (1, 1, 8, 101)], ""),
            ([(1, 0, 8, 100), (2, 0, 2, 50), (2, 1, 2, 51)], ""),
            ([(1, 0, 1, 100)], "0"),
            ([(1, 8, 8, 100)], ""),
            ([(1, -1, 8, 100)], ""),
            ([(1, 9, 8, 100), (2, 1, 2, 300)], "1"),
            ([(1, 5, 2**31 - 1, 100)], ""),
        ],
        ids=[
            "none",
            "one",
            "largest",
            "earliest of equals",
            "seen twice",
            "two GPUs",
            "two GPUs of a smaller one",
            "alone",
            "rank not below size",
            "negative",
            "broken beside good",
            "absurd size",
        ],
    )
    def test_rank_of_the_largest_communicator(self, rows: list[tuple[int, int, int, int]], rank: str) -> None:
        """The earliest of equal size; unknown when a process has several ranks."""
        assert rank_from_communicators(rows) == rank
        assert rank_from_communicators(reversed(rows)) == rank
