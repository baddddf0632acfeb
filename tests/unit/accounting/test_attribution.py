"""attribution: every lost nanosecond has one cause and one culprit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.accounting.attribution import OF_WAKERS, LostTime
from exporter.accounting.exposed import Exposed
from exporter.kernel.abi import Culprit, ThreadState, Victim
from exporter.kernel.awaited_rows import AwaitedBy
from exporter.kernel.thread_rows import BlameKey
from tests.support.lost_time import CC_OF_OTHER, LOGGER_THREAD, OWN_OF_WORKER, STRESS, TEE, WORKER, XZ, Books
from tests.support.tables import By

RUNNABLE, IO, LOCK, PIPE, OUTPUT = (
    ThreadState.RUNNABLE,
    ThreadState.IO,
    ThreadState.LOCK,
    ThreadState.PIPE,
    ThreadState.OUTPUT,
)
IDLE = BlameKey(1, Victim.STEP, Culprit.IDLE, 0, 0, 0, b"")


@pytest.fixture
def books() -> Books:
    """Nothing lost yet."""
    return Books()


class TestStates:
    """What is known from the state alone."""

    def test_sleep_has_the_cause_of_its_state(self, books: Books) -> None:
        """And no culprit."""
        found = books.book({IO: 5, ThreadState.FAULT: 6, ThreadState.MEMORY: 3, ThreadState.RECLAIM: 4})

        assert found == {("block_io", ""): 5, ("major_fault", ""): 6, ("memory_reclaim", ""): 7}

    def test_own_waits_are_the_job_s_own(self, books: Books) -> None:
        """A time-out, a child, several descriptors; a sleep of no known class is none of them."""
        sleeps = {ThreadState.SLEEP: 1, ThreadState.CHILD: 2, ThreadState.POLL: 4, ThreadState.OTHER: 8}

        assert books.book(sleeps) == {("own_wait", ""): 7, ("other", ""): 8}

    def test_quota_of_both_parts_is_one_cause(self, books: Books) -> None:
        """In a stall and in a call that returns late."""
        assert books.book({ThreadState.THROTTLED: 5}, exposed=Exposed(0, 6)) == {("cpu_quota", ""): 11}

    def test_losses_add_up_over_ticks(self, books: Books) -> None:
        """What is given in is what is new."""
        books.book({IO: 5})

        assert books.book({IO: 5}) == {("block_io", ""): 10}


class TestWaitsForACpu:
    """Charged to the program that held the CPU."""

    def test_loss_is_shared_by_the_charges(self, books: Books) -> None:
        """A stall of 30 and a late return of 10; waits of 300 behind a program and 100 behind none."""
        books.charge(STRESS, 300)
        books.charge(IDLE, 100)

        found = books.book({RUNNABLE: 30}, exposed=Exposed(10, 0))

        assert found == {("cpu_contention", "stress"): 30, ("wakeup_latency", ""): 10}

    def test_only_new_charges_count(self, books: Books) -> None:
        """The old ones have been looked at."""
        books.charge(STRESS, 300)
        books.book()
        books.charge(IDLE, 100)

        assert books.book({RUNNABLE: 30}) == {("wakeup_latency", ""): 30}

    def test_recent_charges_explain_time_lost_after_them(self, books: Books) -> None:
        """The wait ended in the tick before the call that it delayed returned."""
        books.charge(STRESS, 300)
        books.book(at=1.0)

        assert books.book({RUNNABLE: 30}, at=1.25) == {("cpu_contention", "stress"): 30}

    def test_loss_waits_until_the_blame_is_read(self, books: Books) -> None:
        """At every fourth tick: who held the CPU a second ago says nothing of now."""
        books.charge(IDLE, 300)
        books.book(at=1.0)
        books.book({RUNNABLE: 30}, at=1.25, is_blame_read=False)
        books.book({RUNNABLE: 30}, at=1.5, is_blame_read=False)
        books.charge(STRESS, 60)

        assert books.book(at=2.0) == {("cpu_contention", "stress"): 60}

    def test_loss_does_not_wait_for_blame_that_never_moves(self, books: Books) -> None:
        """After two seconds the last charges are taken."""
        books.charge(STRESS, 300)
        books.book(at=1.0)
        before = books.book({RUNNABLE: 30}, at=1.25, is_blame_read=False)

        assert before == {}
        assert books.book(at=3.5, is_blame_read=False) == {("cpu_contention", "stress"): 30}

    def test_charges_too_few_for_the_loss_are_joined_by_those_before(self, books: Books) -> None:
        """A wait of 300, the late return of the call it delayed, and a moment's wait for an idle CPU."""
        books.charge(STRESS, 300)
        books.book(at=1.0)
        books.charge(IDLE, 1)

        assert books.book({RUNNABLE: 301}, at=2.0) == {("cpu_contention", "stress"): 300, ("wakeup_latency", ""): 1}

    def test_loss_waits_for_its_charges(self, books: Books) -> None:
        """They come a tick later."""
        before = books.book({RUNNABLE: 30}, at=1.0)
        books.charge(STRESS, 300)

        assert (before, books.book(at=1.25)) == ({}, {("cpu_contention", "stress"): 30})

    def test_lost_time_without_a_culprit_is_unknown_after_five_seconds(self, books: Books) -> None:
        """Not before."""
        books.book({RUNNABLE: 30}, at=1.0)
        at_five = books.book(at=6.0)

        assert (at_five, books.book(at=6.25)) == ({}, {("unknown", ""): 30})

    def test_next_loss_waits_for_five_seconds_of_its_own(self, books: Books) -> None:
        """The five seconds start again."""
        books.book({RUNNABLE: 30}, at=1.0)
        books.book(at=6.25)

        assert books.book({RUNNABLE: 7}, at=7.0) == {("unknown", ""): 30}

    def test_loss_of_a_process_that_ends_is_unknown_at_once(self, books: Books) -> None:
        """There is no later."""
        books.book({RUNNABLE: 30}, at=1.0)
        books.loss.finish()

        assert books.lost() == {("unknown", ""): 30}

    def test_loss_of_a_process_that_ends_has_the_last_charges(self, books: Books) -> None:
        """No more will come."""
        books.charge(STRESS, 300)
        books.book(at=1.0)
        books.book({RUNNABLE: 30}, at=1.25, is_blame_read=False)
        books.loss.finish()

        assert books.lost() == {("cpu_contention", "stress"): 30}

    def test_charges_of_threads_that_do_not_feed_say_nothing(self, books: Books) -> None:
        """A watchdog may wait as long as it likes."""
        books.charge(CC_OF_OTHER, 300)

        assert books.book({RUNNABLE: 30}) == {}

    def test_programs_of_one_name_are_one_culprit(self, books: Books) -> None:
        """make -j starts thousands."""
        books.charge(STRESS, 100)
        books.charge(STRESS._replace(tgid=667), 100)

        assert books.book({RUNNABLE: 30}) == {("cpu_contention", "stress"): 30}

    def test_name_is_admitted_by_all_that_is_charged_to_it(self) -> None:
        """Two processes of one name, and a worker that waited for them too."""
        asked: list[Mapping[str, int]] = []

        def labels(charged: Mapping[str, int], _now_ns: int) -> dict[str, str]:
            asked.append(charged)
            return dict.fromkeys(charged, "other")

        loss = LostTime(labels)
        charges = {STRESS: 100, STRESS._replace(tgid=667): 20, STRESS._replace(victim=Victim.WORKER): 3, IDLE: 50}
        loss.update(Exposed(), {RUNNABLE: 34}, {}, charges, 0)

        assert asked == [{"stress": 123}]
        assert {culprit: lost_ns for (_, culprit), lost_ns in loss.lost().items()} == {"other": 24, "": 10}


class TestEndedNames:
    """A name whose series ends."""

    def test_what_was_lost_to_it_is_lost_to_other(self, books: Books) -> None:
        """The sum stays, by cause; other names are not affected."""
        books.charge(STRESS, 300)
        books.charge(CC_OF_OTHER._replace(victim=Victim.STEP), 100)
        books.disks = {"stress": 7}
        books.book({RUNNABLE: 40, IO: 5})
        books.loss.end_name("stress")

        assert books.lost() == {
            ("cpu_contention", "other"): 30,
            ("cpu_contention", "cc1"): 10,
            ("block_io", "other"): 5,
        }


_NS = st.integers(0, 10**12)
_STATES = st.dictionaries(st.sampled_from(sorted(ThreadState)), _NS, max_size=5)
_TICK = st.tuples(
    _STATES,
    st.tuples(_NS, _NS),
    st.dictionaries(st.sampled_from([STRESS, IDLE, OWN_OF_WORKER, CC_OF_OTHER]), _NS, max_size=3),
    st.dictionaries(st.sampled_from(OF_WAKERS), st.tuples(_STATES, _NS), max_size=3),
    st.dictionaries(
        st.sampled_from([(LOCK, LOGGER_THREAD), (PIPE, WORKER), (PIPE, XZ), (OUTPUT, TEE)]), _NS, max_size=3
    ),
)


class TestConservation:
    """Whatever comes in."""

    @given(st.lists(_TICK, max_size=8))
    def test_causes_add_up_to_the_loss_and_never_go_back(
        self,
        ticks: list[
            tuple[
                By,
                tuple[int, int],
                dict[BlameKey, int],
                dict[ThreadState, tuple[By, int]],
                dict[tuple[ThreadState, AwaitedBy], int],
            ]
        ],
    ) -> None:
        """To the nanosecond, when the process has ended."""
        books, given_ns, before = Books(), 0, dict[tuple[str, str], int]()
        for number, (stalled_ns, exposed, charges, wakeup_paths, awaited) in enumerate(ticks):
            books.awaited = dict(awaited)
            for key, charged_ns in charges.items():
                books.charge(key, charged_ns)
            for state, (states_ns, abstained_ns) in wakeup_paths.items():
                books.wakeup_path(state, states_ns, abstained_ns)
            given_ns += sum(stalled_ns.values()) + sum(exposed)
            now = books.book(stalled_ns, exposed=Exposed(*exposed), at=2.0 * number)
            assert all(now[key] >= value for key, value in before.items())
            before = now
        books.loss.finish()

        assert sum(books.lost().values()) == given_ns


class TestDisks:
    """Waits for a disk, by the programs that used it in that time."""

    def test_loss_is_shared_by_who_used_the_disk(self, books: Books) -> None:
        """Three quarters of the time it worked for dd."""
        books.disks = {"": 10, "dd": 30}

        assert books.book({IO: 100}) == {("block_io", ""): 25, ("block_io", "dd"): 75}

    def test_page_that_comes_from_the_disk_as_well(self, books: Books) -> None:
        """Under its own cause."""
        books.disks = {"dd": 30}

        assert books.book({ThreadState.FAULT: 8}) == {("major_fault", "dd"): 8}

    def test_worker_s_sleep_for_a_disk_as_well(self, books: Books) -> None:
        """The step thread waits for the worker, the worker for the disk."""
        books.wakeup_path(ThreadState.PIPE, {IO: 10})
        books.disks = {"dd": 30}

        assert books.book({ThreadState.PIPE: 6}) == {("block_io", "dd"): 6}

    def test_without_the_collector_it_is_nobodys(self, books: Books) -> None:
        """The cause is known all the same."""
        assert books.book({IO: 5}) == {("block_io", ""): 5}

    def test_users_are_remembered_for_five_seconds(self, books: Books) -> None:
        """What was slept and what was lost need not be read at once."""
        books.disks = {"dd": 30}
        books.book({}, at=0.0)
        books.book({IO: 5}, at=5.0)
        assert not books.loss.is_at_rest
        books.book({IO: 7}, at=6.0)

        assert books.lost() == {("block_io", "dd"): 5, ("block_io", ""): 7}
        assert books.loss.is_at_rest
