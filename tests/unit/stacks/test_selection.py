"""selection: which threads are sampled, and when."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, End, Transition
from exporter.kernel.abi import Victim
from exporter.kernel.thread_rows import ThreadRow
from exporter.stacks.selection import FEEDER_CAUSES, ThreadSelection
from tests.support.chains import a_chain
from tests.support.stacks import SECOND, a_thread

STUCK = a_thread(1, "cudaStreamSynchronize", for_ns=2 * SECOND)
HANG = a_chain(cause=Cause.NCCL_HANG)


def sampled(
    selection: ThreadSelection,
    chain: Chain,
    rows: list[ThreadRow],
    change: Change | None = Change.OPENED,
    at: float = 11,
) -> tuple[int, ...]:
    """Threads that are sampled in a tick, at a time in seconds."""
    transitions = [Transition(change, chain)] if change else []
    due = selection.due([chain], transitions, int(at * SECOND))
    return next((request.tids for request in selection.select(due, rows)), ())


class TestStuckCalls:
    def test_call_that_is_open_for_a_second_is_sampled(self) -> None:
        """A call that is open for less is not."""
        rows = [a_thread(1, "cudaFree", for_ns=SECOND), a_thread(2, "cudaFree", for_ns=SECOND - 1)]

        assert sampled(ThreadSelection(), a_chain(), rows) == (1,)

    def test_thread_outside_of_calls_is_not_stuck(self) -> None:
        assert sampled(ThreadSelection(), a_chain(), [a_thread(1, for_ns=60 * SECOND)]) == ()

    def test_threads_of_other_processes_are_not_sampled(self) -> None:
        assert sampled(ThreadSelection(), a_chain(), [STUCK._replace(process=2)]) == ()

    def test_thread_in_another_pid_namespace_is_not_sampled(self) -> None:
        """Its tid is 0 here."""
        assert sampled(ThreadSelection(), a_chain(), [STUCK._replace(tid=0)]) == ()

    def test_call_that_gets_stuck_after_the_opening_is_found_within_a_second(self) -> None:
        """A check that finds nothing is no sample."""
        selection, chain = ThreadSelection(), a_chain()

        assert sampled(selection, chain, []) == ()
        assert sampled(selection, chain, [STUCK], None, at=11.75) == ()
        assert sampled(selection, chain, [STUCK], None, at=12) == (1,)

    def test_call_is_sampled_once(self) -> None:
        """Its callers do not change. A later call of the thread is sampled again."""
        selection, chain = ThreadSelection(), a_chain()
        sampled(selection, chain, [STUCK])

        assert sampled(selection, chain, [STUCK], None, at=13) == ()
        assert sampled(selection, chain, [STUCK._replace(opened_ns=STUCK.opened_ns + 1)], None, at=14.5) == (1,)

    def test_checks_become_rarer_as_the_chain_gets_old(self) -> None:
        """Every ten seconds after 100 seconds."""
        selection, chain = ThreadSelection(), a_chain()
        sampled(selection, chain, [], None, at=111)

        assert sampled(selection, chain, [STUCK], None, at=120.9) == ()
        assert sampled(selection, chain, [STUCK], None, at=121) == (1,)


class TestFeeders:
    """Threads that feed the GPU, in a call or not."""

    @pytest.mark.parametrize("cause", sorted(FEEDER_CAUSES))
    def test_they_are_sampled_when_a_chain_of_such_a_cause_opens(self, cause: Cause) -> None:
        """Other threads of the process are not."""
        rows = [a_thread(1), a_thread(2, victim=Victim.OTHER), a_thread(3, victim=Victim.WORKER)]

        assert sampled(ThreadSelection(), a_chain(cause=cause), rows) == (1,)

    def test_they_are_not_sampled_for_cpu_contention(self) -> None:
        """The culprit is known already."""
        assert sampled(ThreadSelection(), a_chain(), [a_thread(1)]) == ()

    def test_they_are_not_sampled_again_while_the_chain_does_not_change(self) -> None:
        assert sampled(ThreadSelection(), HANG, [a_thread(1)], None) == ()


class TestBounds:
    def test_at_most_four_threads_feeders_and_longest_calls_first(self) -> None:
        others = [a_thread(n, "cudaFree", for_ns=(2 + n) * SECOND, victim=Victim.OTHER) for n in (1, 2, 3, 4)]
        feeders = [a_thread(5, "cudaFree", for_ns=2 * SECOND), a_thread(6, "cudaFree", for_ns=3 * SECOND)]

        assert sampled(ThreadSelection(), HANG, [*others, *feeders]) == (6, 5, 4, 3)

    def test_at_most_two_samples(self) -> None:
        """When the chain opens and when it escalates for the first time."""
        selection = ThreadSelection()
        samples = [
            sampled(selection, HANG, [a_thread(1)], Change(change)) for change in ("opened", "escalated", "escalated")
        ]

        assert samples == [(1,), (1,), ()]

    def test_next_chain_of_the_process_is_sampled_again(self) -> None:
        """What is remembered of a resolved chain is dropped."""
        selection = ThreadSelection()
        sampled(selection, a_chain(), [STUCK])
        selection.due([], [a_chain().resolved(12 * SECOND, End.RECOVERED)], 12 * SECOND)

        assert sampled(selection, a_chain(id="2" * 32), [STUCK], at=13) == (1,)
