"""collector: a tick requests samples, a later tick gets the evidence."""

from __future__ import annotations

from exporter.stacks.collector import QUEUE_MAX, Evidence
from tests.support.chains import a_chain
from tests.support.stack_collector import PROCESS, STUCK, CollectorBench
from tests.support.traced import eventually


class TestCollector:
    def test_evidence_comes_in_a_later_tick(self) -> None:
        """With the chain as it is then, and the process as it was when it was sampled."""
        bench = CollectorBench(STUCK)
        assert bench.tick(a_chain(), opened=True) == []
        worse = a_chain(lost_share=0.9)

        assert bench.evidence(worse) == Evidence(
            worse,
            PROCESS,
            (
                "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
                "  f3005",
                "inside cudaStreamSynchronize it is at",
                "  f1000",
            ),
        )
        assert bench.results == ["named"]

    def test_chain_that_is_resolved_by_then_is_as_it_was(self) -> None:
        """The job was killed."""
        bench = CollectorBench(STUCK)
        bench.tick(a_chain(), opened=True)

        assert bench.evidence().chain == a_chain()

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

    def test_next_request_is_handled_after_an_exception(self) -> None:
        bench = CollectorBench(STUCK)
        bench.is_broken = True
        bench.tick(a_chain(), opened=True)
        eventually(
            lambda: not bench.collector._waiting and bench.collector._thread is None, "the failed request is over"
        )
        bench.is_broken = False
        other = a_chain(id="2" * 32)
        bench.tick(other, opened=True)

        assert bench.evidence(other).chain == other


class TestBounds:
    def test_requests_beyond_the_queue_are_left_out_and_counted(self) -> None:
        """One is handled, QUEUE_MAX wait."""
        bench = CollectorBench(STUCK)
        bench.may_continue.clear()
        first = a_chain(id="f" * 32)
        bench.tick(first, opened=True)
        eventually(lambda: bench.collector._waiting == 0, "the first one is handled")
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
