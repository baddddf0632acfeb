"""collector: a tick requests samples, a later tick gets the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.chains.chain import Chain
from exporter.chains.evidence import Evidence
from exporter.kernel.stacks import Stack
from exporter.python.call_site import CallStack, PythonFrame
from exporter.stacks.collector import QUEUE_MAX, TAKES_MAX
from exporter.stacks.format import PythonSection
from exporter.stacks.python_evidence import SlowCallsOfChain
from tests.support.chains import a_chain
from tests.support.stack_collector import PROCESS, STUCK, CollectorBench
from tests.support.traced import eventually


class Python:
    """PythonEvidence of a process in step(), with slow calls since this chain began, once."""

    def __init__(self, chain: Chain) -> None:
        self.slow = [SlowCallsOfChain(chain, (), 1)]
        self.is_unreadable = False
        self.gone_on = 0  # so often tasks are not read

    def due(self, _now_ns: int) -> None:
        return None

    def slow_calls(self, _chains: object, _now_ns: int) -> list[SlowCallsOfChain]:
        given, self.slow = self.slow, []
        return given

    def of_stacks(self, _tgid: int, stacks: Iterable[Stack]) -> dict[int, PythonSection]:
        stack = CallStack("/srv/job", (PythonFrame("/srv/job/train.py", "step", 142),))
        self.gone_on -= 1
        section = PythonSection(stack, (), is_outer=False, has_gone_on=self.gone_on >= 0)
        return {stack.tid: section for stack in stacks}

    def can_read(self, tgid: int) -> bool:
        return tgid == PROCESS.tgid and not self.is_unreadable

    def lines_of(self, _slow: SlowCallsOfChain, tgid: int, tids: Sequence[int], _take: object) -> tuple[str, ...]:
        return (f"lines of {tgid}, threads {tids}",)


class TestCollector:
    def test_evidence_comes_in_a_later_tick(self) -> None:
        """With the chain and the process as they were when it was sampled."""
        bench = CollectorBench(STUCK)
        assert bench.tick(a_chain(), opened=True) == []

        assert bench.evidence(a_chain(lost_share=0.9)) == Evidence(
            a_chain(),
            PROCESS,
            (
                "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
                "  f3005",
                "inside cudaStreamSynchronize it is at",
                "  f1000",
            ),
        )
        assert bench.results == ["named"]

    def test_frames_of_python_and_lines_with_the_most_time_are_evidence(self) -> None:
        """The lines of the whole chain come in an Evidence of their own, sampled of the thread that feeds the GPU."""
        chain = a_chain()
        bench = CollectorBench(STUCK, python=Python(chain))
        found = bench.tick(chain, opened=True)
        eventually(lambda: found.extend(bench.tick(chain)) or len(found) > 1, "both are there")
        assert {one.lines for one in found} == {
            (
                "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
                "  f3005",
                "  step (train.py:142)",
                "inside cudaStreamSynchronize it is at",
                "  f1000",
            ),
            ("lines of 4700, threads (4711,)",),
        }

    def test_stacks_are_taken_again_if_a_thread_goes_on_while_its_tasks_are_read(self) -> None:
        """It does so once."""
        chain = a_chain()
        python = Python(chain)
        python.slow, python.gone_on = [], 1
        bench = CollectorBench(STUCK, python=python)
        bench.tick(chain, opened=True)
        bench.evidence(chain)

        assert (bench.taken, bench.results) == (2, ["named"])

    def test_stack_of_a_thread_that_always_goes_on_is_evidence_without_tasks(self) -> None:
        chain = a_chain()
        python = Python(chain)
        python.slow, python.gone_on = [], 1_000
        bench = CollectorBench(STUCK, python=python)
        bench.tick(chain, opened=True)
        bench.evidence(chain)

        assert (bench.taken, bench.results) == (TAKES_MAX, ["named"])

    def test_process_without_python_has_no_lines(self) -> None:
        """Its threads are read once, for stuck calls, and not once more."""
        chain = a_chain()
        python = Python(chain)
        python.is_unreadable = True
        bench = CollectorBench(STUCK, python=python)
        bench.tick(chain)

        assert bench.reads == [{1}]

    def test_without_bcc_the_stack_is_located(self) -> None:
        """Only files are known."""
        bench = CollectorBench(STUCK, by_bcc=False)
        bench.tick(a_chain(), opened=True)
        bench.evidence()

        assert bench.results == ["located"]

    def test_process_that_ended_leaves_the_call_without_functions(self) -> None:
        """Its addresses cannot be looked up any more."""
        bench = CollectorBench(STUCK)
        bench.is_gone = True
        bench.tick(a_chain(), opened=True)

        (line,) = bench.evidence().lines
        assert line.endswith("its functions are not known: the process has ended")
        assert bench.results == ["unnamed"]

    def test_thread_that_ended_is_counted_as_failed(self) -> None:
        bench = CollectorBench(None)
        bench.tick(a_chain(), opened=True)
        eventually(lambda: bench.results, "it is counted")

        assert bench.results == ["failed"]
        assert bench.tick(a_chain()) == []

    def test_threads_are_not_read_while_no_chain_is_due(self) -> None:
        """Reading them takes milliseconds on a full node."""
        bench = CollectorBench(STUCK)
        bench.tick()
        bench.tick(a_chain(), opened=True)
        bench.tick(a_chain(), at=11.25)

        assert bench.reads == [{1}]


class TestBounds:
    def test_requests_beyond_the_queue_are_left_out_and_counted(self) -> None:
        """One is handled, QUEUE_MAX wait."""
        bench = CollectorBench(STUCK)
        bench.may_continue.clear()
        first = a_chain(id="f" * 32)
        bench.tick(first, opened=True)
        eventually(lambda: bench.begun, "the first one is handled")
        chains = [a_chain(id=f"{number:032}", process=number) for number in range(1, QUEUE_MAX + 3)]
        bench.tick(*chains, opened=True)

        assert bench.results == ["left_out", "left_out"]
        bench.may_continue.set()
        eventually(lambda: len(bench.results) == 2 + 1 + QUEUE_MAX, "all others are handled")

    def test_requests_after_a_close_are_dropped(self) -> None:
        bench = CollectorBench(STUCK)
        bench.tick(a_chain(), opened=True)
        bench.evidence(a_chain())
        bench.collector.close()
        bench.tick(a_chain(id="2" * 32), opened=True)

        assert bench.is_closed
        assert bench.results == ["named"]
