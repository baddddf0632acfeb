"""suspects: which threads are looked at, and when."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, End, Transition
from exporter.kernel.abi import Victim
from exporter.kernel.thread_rows import ThreadRow
from exporter.stacks.selection import Inquiry
from tests.support.chains import a_chain
from tests.support.stacks import SECOND, a_thread

STUCK = a_thread(1, "cudaStreamSynchronize", for_ns=2 * SECOND)
HANG = a_chain(cause=Cause.NCCL_HANG)


def look(
    inquiry: Inquiry, chain: Chain, rows: list[ThreadRow], change: Change | None = Change.OPENED, at: float = 11
) -> tuple[int, ...]:
    """The threads that are looked at on a tick, at so many seconds; none when there is no look."""
    transitions = [Transition(change, chain)] if change else []
    due = inquiry.due([chain], transitions, int(at * SECOND))
    return next((found.tids for found in inquiry.suspects(due, rows)), ())


class TestStuckCalls:
    """Of any open chain."""

    def test_call_open_for_a_second_is_looked_at(self) -> None:
        """And one that is open for less is not."""
        rows = [a_thread(1, "cudaFree", for_ns=SECOND), a_thread(2, "cudaFree", for_ns=SECOND - 1)]

        assert look(Inquiry(), a_chain(), rows) == (1,)

    def test_time_outside_of_calls_is_no_stuck_call(self) -> None:
        """However long it is."""
        assert look(Inquiry(), a_chain(), [a_thread(1, for_ns=60 * SECOND)]) == ()

    def test_threads_of_other_processes_are_left_alone(self) -> None:
        """They may have chains of their own."""
        assert look(Inquiry(), a_chain(), [STUCK._replace(process=2)]) == ()

    def test_thread_that_the_exporter_does_not_see_is_left_out(self) -> None:
        """It has no number here."""
        assert look(Inquiry(), a_chain(), [STUCK._replace(tid=0)]) == ()

    def test_call_that_gets_stuck_after_the_opening_is_found_within_a_second(self) -> None:
        """Nothing was there at first, and that was no look."""
        inquiry, chain = Inquiry(), a_chain()

        assert look(inquiry, chain, []) == ()
        assert look(inquiry, chain, [STUCK], None, at=11.75) == ()
        assert look(inquiry, chain, [STUCK], None, at=12) == (1,)

    def test_same_call_is_looked_at_once(self) -> None:
        """Who made it does not change; a later call of the thread is another one."""
        inquiry, chain = Inquiry(), a_chain()
        look(inquiry, chain, [STUCK])

        assert look(inquiry, chain, [STUCK], None, at=13) == ()
        assert look(inquiry, chain, [STUCK._replace(opened_ns=STUCK.opened_ns + 1)], None, at=14.5) == (1,)

    def test_checks_become_rarer_as_the_chain_gets_old(self) -> None:
        """After 100 seconds every ten."""
        inquiry, chain = Inquiry(), a_chain()
        look(inquiry, chain, [], None, at=111)

        assert look(inquiry, chain, [STUCK], None, at=120.9) == ()
        assert look(inquiry, chain, [STUCK], None, at=121) == (1,)


class TestFeeders:
    """Threads that feed the GPU, in a call or not."""

    @pytest.mark.parametrize("cause", ["nccl_hang", "slow_rank", "lock", "paused", "not_host"])
    def test_they_are_looked_at_when_such_a_chain_opens(self, cause: str) -> None:
        """Another thread of the process is not."""
        rows = [a_thread(1), a_thread(2, victim=Victim.OTHER), a_thread(3, victim=Victim.WORKER)]

        assert look(Inquiry(), a_chain(cause=Cause(cause)), rows) == (1,)

    def test_they_say_nothing_of_a_full_cpu(self) -> None:
        """Whoever holds it is named already."""
        assert look(Inquiry(), a_chain(), [a_thread(1)]) == ()

    def test_open_chain_without_news_does_not_ask_for_them(self) -> None:
        """Only for stuck calls."""
        assert look(Inquiry(), HANG, [a_thread(1)], None) == ()


class TestBounds:
    """What is read by a person is short, and a job is not looked at for ever."""

    def test_four_threads_at_most_the_feeders_and_the_longest_first(self) -> None:
        """Of six."""
        others = [a_thread(n, "cudaFree", for_ns=(2 + n) * SECOND, victim=Victim.OTHER) for n in (1, 2, 3, 4)]
        feeders = [a_thread(5, "cudaFree", for_ns=2 * SECOND), a_thread(6, "cudaFree", for_ns=3 * SECOND)]

        assert look(Inquiry(), HANG, [*others, *feeders]) == (6, 5, 4, 3)

    def test_two_looks_at_most(self) -> None:
        """At the opening and when it became worse; a third time nobody asks."""
        inquiry = Inquiry()
        told = [look(inquiry, HANG, [a_thread(1)], Change(change)) for change in ("opened", "escalated", "escalated")]

        assert told == [(1,), (1,), ()]

    def test_next_chain_of_the_process_is_looked_at_anew(self) -> None:
        """What is known of one that is over is forgotten."""
        inquiry = Inquiry()
        look(inquiry, a_chain(), [STUCK])
        inquiry.due([], [a_chain().resolved(12 * SECOND, End.RECOVERED)], 12 * SECOND)

        assert look(inquiry, a_chain(id="2" * 32), [STUCK], at=13) == (1,)
