"""Lag: which rank of a node enters a collective last, and how late; two processes in one communicator."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from tests.support import greedy
from tests.support.scripted_process import ScriptedProcess, attach, scripted_process
from tests.support.traced import Tracer, only, tracer

MS = 1_000_000


class TestArrival:
    def test_rank_that_is_50_ms_late_has_that_lag(self, own_traced: Tracer, own_standin: Path, tmp_path: Path) -> None:
        """In the second collective the other rank is late, by 20 ms."""
        with ExitStack() as stack:
            early, late = self._joined(own_standin, stack, tmp_path)
            began_ns = time.monotonic_ns()
            early("gpu.all_reduce(comm, nccl)")
            late("time.sleep(0.05); gpu.all_reduce(comm, nccl)")
            between_ns = time.monotonic_ns()
            before = self._lags(own_traced)
            late("gpu.all_reduce(comm, nccl)")
            early("time.sleep(0.02); gpu.all_reduce(comm, nccl)")
            ended_ns = time.monotonic_ns()
            after = self._lags(own_traced)

        assert [arrivals for _, arrivals in before] == [0, 1]
        assert before[0][0] == 0
        assert 50 * MS <= before[1][0] <= between_ns - began_ns
        assert [arrivals for _, arrivals in after] == [1, 1]
        assert 20 * MS <= after[0][0] <= ended_ns - between_ns
        assert after[1] == before[1]

    def test_places_are_reused(self, own_traced: Tracer, own_standin: Path, tmp_path: Path) -> None:
        """1,100 collectives, more than there are places: in each, one of the two is second."""
        with ExitStack() as stack:
            ranks = self._joined(own_standin, stack, tmp_path)
            for one in ranks:
                one("gpu.nccl.standin_set_collective_ns(c_uint64(1000))")
            for one in ranks:
                one.begin("for _ in range(1100): gpu.all_reduce(comm, nccl); gpu('cudaStreamSynchronize', nccl)")
            for one in ranks:
                one.finish()
            lags = self._lags(own_traced)

        assert sum(arrivals for _, arrivals in lags) == 1_100

    def test_collectives_of_another_user_do_not_hide_a_lag(
        self, own_traced: Tracer, own_standin: Path, tmp_path: Path
    ) -> None:
        """Between the arrivals of two ranks, two programs of theirs make 30 communicators and 1,100 collectives of each."""
        with ExitStack() as stack:
            program = stack.enter_context(greedy.compiled())
            greedy.attach(own_traced, program)
            early, late = self._joined(own_standin, stack, tmp_path)
            ranks = set(own_traced.tables.read_communicators())
            early("gpu.all_reduce(comm, nccl)")
            for _ in range(2):
                orders = ("communicators", "15", "collectives", "16500")
                stack.enter_context(greedy.running(program, *orders, user=greedy.OTHER_USER))
            late("gpu.all_reduce(comm, nccl)")
            progress = own_traced.tables.read().progress
            arrivals = [row.late_arrivals for key, row in progress.items() if key.process in ranks]

        assert sorted(arrivals) == [0, 1]

    def test_destroyed_communicators_hold_nothing(self, own_traced: Tracer, own_standin: Path, tmp_path: Path) -> None:
        """A job may make new ones for as long as it runs."""
        with ExitStack() as stack:
            ranks = self._joined(own_standin, stack, tmp_path)
            for one in ranks:
                one("gpu.all_reduce(comm, nccl)")
            before = own_traced.tables.shares.totals()["arrivals"][0]
            for one in ranks:
                one("gpu('ncclCommDestroy', made)")
            after = own_traced.tables.shares.totals()["arrivals"][0]

        assert (before, after) == (1, 0)

    def test_ended_ranks_hold_nothing(self, own_traced: Tracer, own_standin: Path, tmp_path: Path) -> None:
        """They were killed, and destroyed nothing."""
        with ExitStack() as stack:
            for one in self._joined(own_standin, stack, tmp_path):
                one("gpu.all_reduce(comm, nccl)")
        reading = own_traced.tables.read()
        before = len(list(own_traced.kernel.maps["arrivals"].items()))
        own_traced.tables.forget(set(reading.processes), reading)

        assert before == 1
        assert list(own_traced.kernel.maps["arrivals"].items()) == []
        assert own_traced.tables.shares.totals()["arrivals"][0] == 0

    def test_sends_are_not_compared(self, best_traced: Tracer) -> None:
        """A collective of the same two ranks is compared."""
        best_traced.run("--ranks=2", "ncclSend:5:1024", "ncclAllReduce:1:1024")
        rows = [row for row in best_traced.tables.read().progress.values() if row.enqueued]

        assert sum(row.late_arrivals for row in rows) == 1

    def test_communicator_whose_creation_was_not_traced_is_not_compared(
        self, own_standin: Path, tmp_path: Path
    ) -> None:
        """It is unknown which ranks belong together."""
        with tracer() as blind, ExitStack() as stack:
            attach(blind, own_standin, only=("ncclAllReduce",))
            for one in self._joined(own_standin, stack, tmp_path):
                one("gpu.all_reduce(comm, nccl)")
            rows = blind.tables.read().progress.values()

            assert [(row.enqueued, row.late_arrivals) for row in rows] == [(1, 0), (1, 0)]

    @staticmethod
    def _joined(own_standin: Path, stack: ExitStack, folder: Path) -> tuple[ScriptedProcess, ScriptedProcess]:
        """Two processes in one communicator, rank 0 first."""
        ranks = tuple(stack.enter_context(scripted_process(own_standin)) for _ in range(2))
        unique = folder / "unique"
        ranks[0](
            f"unique = UniqueId(); gpu('ncclGetUniqueId', byref(unique)); Path({str(unique)!r}).write_bytes(bytes(unique))"
        )
        for rank, one in enumerate(ranks):
            one(
                f"unique = UniqueId.from_buffer_copy(Path({str(unique)!r}).read_bytes())",
                "nccl, made = gpu.stream(), c_void_p()",
            )
            one.begin(f"gpu('ncclCommInitRank', byref(made), 2, unique, {rank}); comm = made.value")
        for one in ranks:
            one.finish()
        return ranks[0], ranks[1]

    @staticmethod
    def _lags(own_traced: Tracer) -> list[tuple[int, int]]:
        """Lag and late arrivals of each rank."""
        reading = own_traced.tables.read()
        ranks = {process: only(rows).rank for process, rows in reading.communicators.items()}
        rows = sorted(reading.progress.items(), key=lambda item: ranks[item[0].process])
        return [(row.lag_ns, row.late_arrivals) for _, row in rows]
