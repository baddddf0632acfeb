"""asker: a tick requests, a later tick gets the evidence; a job is queried once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, Transition
from exporter.chains.event import ChainProcess
from exporter.chains.evidence import Evidence
from exporter.kernel.process_rows import CommunicatorRow
from exporter.ras.asker import AGAIN_NS, QUEUE_MAX, RasAsker
from exporter.ras.asking import RasResult
from exporter.ras.view import JobRows
from tests.support.chains import SECOND, a_chain
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually

PROCESS = ChainProcess(None, 4700, ())


class Bench:
    """Jobs of one process each, but for processes 1 and 2, which are one job. queried: their processes, in order."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.is_broken = False
        self.queried: list[tuple[int, ...]] = []
        self.results: list[str] = []
        self.asker = RasAsker(dict, self._communicators, self._ask, self.results.append)

    @staticmethod
    def _communicators() -> dict[int, list[CommunicatorRow]]:
        alone = {number: [CommunicatorRow(100 + number, 0, 0, 2, 1)] for number in range(3, 60)}
        return alone | {1: [CommunicatorRow(50, 0, 0, 2, 1)], 2: [CommunicatorRow(50, 0, 1, 2, 1)]}

    def _ask(self, rows: JobRows) -> RasResult:
        self.may_answer.wait(PATIENCE_SECONDS)
        self.queried.append(rows.job.processes)
        if self.is_broken:
            raise RuntimeError("a defect")
        return RasResult("answered", (f"NCCL RAS: {len(self.queried)}",))

    def tick(self, *opened: Chain, now_ns: int = 0, change: Change = Change.OPENED) -> list[Evidence]:
        transitions = [Transition(change, one) for one in opened]
        return self.asker.tick(opened, transitions, lambda _chain: PROCESS, now_ns)

    def evidence(self, count: int, now_ns: int = 0) -> list[Evidence]:
        """So many, from the ticks that follow."""
        found: list[Evidence] = []

        def more() -> bool:
            found.extend(self.tick(now_ns=now_ns))
            return len(found) >= count

        eventually(more, "evidence comes")
        return found


@pytest.fixture
def bench() -> Iterator[Bench]:
    found = Bench()
    yield found
    found.may_answer.set()
    found.asker.close()


def a_hang(process: int = 1, **changes: object) -> Chain:
    return a_chain(**{"id": f"{process:032x}", "process": process, "cause": Cause.NCCL_HANG} | changes)


def lines(found: Sequence[Evidence]) -> list[tuple[str, ...]]:
    return [one.lines for one in found]


class TestQueries:
    @pytest.mark.parametrize("cause", [Cause.NCCL_HANG, Cause.STALLED, Cause.SLOW_RANK, Cause.GPU])
    def test_chain_gets_the_answer_at_a_later_tick(self, bench: Bench, cause: Cause) -> None:
        chain = a_hang(cause=cause)
        bench.tick(chain)

        assert bench.evidence(1) == [Evidence(chain, PROCESS, ("NCCL RAS: 1",))]
        assert bench.results == ["answered"]

    @pytest.mark.parametrize("cause", [Cause.CPU_CONTENTION, Cause.PEER_RANK, Cause.CRASH])
    def test_chain_with_a_cause_on_this_host_is_no_reason(self, bench: Bench, cause: Cause) -> None:
        bench.tick(a_hang(cause=cause))
        bench.tick(a_hang(3))
        bench.evidence(1)

        assert bench.queried == [(3,)]

    def test_process_without_communicators_is_no_reason(self, bench: Bench) -> None:
        """A job that does not use NCCL may stall as well."""
        bench.tick(a_hang(99, cause=Cause.STALLED))
        bench.tick(a_hang(3))
        bench.evidence(1)

        assert bench.queried == [(3,)]

    def test_resolved_chain_is_no_reason(self, bench: Bench) -> None:
        bench.tick(a_hang(1), change=Change.RESOLVED)
        bench.tick(a_hang(3))
        bench.evidence(1)

        assert bench.queried == [(3,)]

    def test_chains_of_one_job_share_a_query(self, bench: Bench) -> None:
        """Both get its answer, also one that opens while it goes on, or afterwards."""
        bench.may_answer.clear()
        bench.tick(a_hang(1))
        bench.tick(a_hang(2), now_ns=SECOND)
        bench.may_answer.set()
        assert lines(bench.evidence(2, now_ns=SECOND)) == [("NCCL RAS: 1",)] * 2

        later = bench.tick(a_hang(2, id="f" * 32), now_ns=AGAIN_NS - 1)
        assert lines(later) == [("NCCL RAS: 1",)]
        assert bench.queried == [(1, 2)]

    def test_job_is_queried_again_after_a_while(self, bench: Bench) -> None:
        """NCCL may have given up a process that it only missed before."""
        bench.tick(a_hang(1))
        bench.evidence(1)
        bench.tick(a_hang(1), now_ns=AGAIN_NS, change=Change.ESCALATED)

        assert lines(bench.evidence(1, now_ns=AGAIN_NS)) == [("NCCL RAS: 2",)]


class TestBounds:
    def test_tick_does_not_wait(self, bench: Bench) -> None:
        """The answer is not there while this one returns."""
        bench.may_answer.clear()

        assert bench.tick(a_hang(1)) == []
        assert bench.results == []

    def test_too_many_jobs_are_left_out_and_counted(self, bench: Bench) -> None:
        """One may be on its way already, the others wait."""
        bench.may_answer.clear()
        count = QUEUE_MAX + 4
        bench.tick(*(a_hang(number) for number in range(3, 3 + count)))
        left_out = bench.results.count("left_out")
        bench.may_answer.set()
        bench.evidence(count - left_out)

        assert left_out in (3, 4)
        assert len(bench.queried) == count - left_out

    def test_defect_does_not_lose_the_next_query(self, bench: Bench) -> None:
        bench.is_broken = True
        bench.tick(a_hang(3))
        bench.evidence(1)
        bench.is_broken = False
        bench.tick(a_hang(4))

        assert lines(bench.evidence(1)) == [("NCCL RAS: 2",)]
        assert bench.results == ["failed", "answered"]
