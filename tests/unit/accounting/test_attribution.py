"""loss: every lost nanosecond has one cause and one culprit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.accounting.attribution import OF_WAKERS, LostTime, WakeupPaths
from exporter.accounting.exposed import Exposed
from exporter.accounting.sharing import Growth
from exporter.kernel.abi import Awaited, Culprit, ThreadState, Victim, Waker
from exporter.kernel.awaited_rows import AwaitedBy
from exporter.kernel.thread_rows import BlameKey, WakeupRow
from tests.support.tables import By, states_of

SECOND = 1_000_000_000
_NOT_EXPOSED = Exposed()
ON_CPU, RUNNABLE, IO = ThreadState.ON_CPU, ThreadState.RUNNABLE, ThreadState.IO
LOCK, PIPE, SOCKET, OUTPUT = ThreadState.LOCK, ThreadState.PIPE, ThreadState.SOCKET, ThreadState.OUTPUT
STRESS = BlameKey(1, Victim.STEP, Culprit.TASK, 666, 0, 7, b"stress")
IDLE = BlameKey(1, Victim.STEP, Culprit.IDLE, 0, 0, 0, b"")
OWN_OF_WORKER = BlameKey(1, Victim.WORKER, Culprit.OWN, 100, 0, 7, b"python")
CC_OF_OTHER = BlameKey(1, Victim.OTHER, Culprit.TASK, 667, 0, 7, b"cc1")
OWN_OF_OTHER = BlameKey(1, Victim.OTHER, Culprit.OWN, 100, 0, 7, b"python")
TEE = AwaitedBy(801, Awaited.PROCESS, b"tee")
XZ = AwaitedBy(802, Awaited.PROCESS, b"xz")
RSYNC = AwaitedBy(803, Awaited.PROCESS, b"rsync")
LOGGER_THREAD = AwaitedBy(0, Awaited.THREAD, b"logger")
WORKER = AwaitedBy(804, Awaited.WORKER, b"python")


class Books:
    """The loss of one process. Sums are cumulative, as in the kernel."""

    def __init__(self) -> None:
        self.loss = LostTime(lambda charged, _: {name: name for name in charged})
        self.blame: dict[BlameKey, int] = {}
        self._charged: Growth[BlameKey] = Growth()
        self.wakeup_paths: WakeupPaths = {}
        self.disks: dict[str, int] = {}  # what was slept for disks since the last tick, by who used them
        self.awaited: dict[
            tuple[ThreadState, AwaitedBy], int
        ] = {}  # what was slept since the last tick, by who was waited for

    def charge(self, key: BlameKey, charged_ns: int) -> None:
        """A wait for a CPU."""
        self.blame[key] = self.blame.get(key, 0) + charged_ns

    def wakeup_path(
        self, state: ThreadState, states_ns: By, abstained_ns: int = 0, *, waker: Waker = Waker.PROCESS
    ) -> None:
        """What the wakers of sleeps in `state` have done so far."""
        row = WakeupRow(1, sum(states_ns.values()), abstained_ns, states_of(states_ns))
        self.wakeup_paths[state] = {**self.wakeup_paths.get(state, {}), waker: row}

    def book(
        self,
        stalled_ns: By | None = None,
        *,
        exposed: Exposed = _NOT_EXPOSED,
        at: float = 0.0,
        is_blame_read: bool = True,
    ) -> dict[tuple[str, str], int]:
        """One tick; returns all that is lost so far."""
        charged = self._charged.since(dict(self.blame)) if is_blame_read else {}
        now_ns = int(at * SECOND)
        disks, self.disks = self.disks, {}
        awaited, self.awaited = self.awaited, {}
        self.loss.update(
            exposed,
            stalled_ns or {},
            self.wakeup_paths,
            charged,
            now_ns,
            disks=disks,
            awaited=awaited,
            is_blame_read=is_blame_read,
        )
        return self.lost()

    def lost(self) -> dict[tuple[str, str], int]:
        """By cause and culprit."""
        return {(cause.value, culprit): lost_ns for (cause, culprit), lost_ns in self.loss.lost().items()}


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


class TestWakeupPaths:
    """What the one did that was waited for."""

    def test_stall_is_made_of_what_the_worker_did(self, books: Books) -> None:
        """A pipe, behind which a worker computed for a tenth of the time and read from a disk for the rest."""
        books.wakeup_path(PIPE, {ON_CPU: 100, IO: 900})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 5, ("block_io", ""): 45}

    def test_worker_that_waits_for_a_cpu_is_charged_to_who_held_it(self, books: Books) -> None:
        """And not to who held that of the step threads."""
        books.wakeup_path(PIPE, {RUNNABLE: 100})
        books.charge(STRESS, 300)
        books.charge(OWN_OF_WORKER, 300)

        assert books.book({PIPE: 50}) == {("cpu_oversubscribed", "python"): 50}

    def test_thread_of_the_process_is_charged_where_no_worker_is(self, books: Books) -> None:
        """A thread that fetches data."""
        books.wakeup_path(LOCK, {RUNNABLE: 100})
        books.charge(CC_OF_OTHER, 300)

        assert books.book({LOCK: 50}) == {("cpu_contention", "cc1"): 50}

    def test_unresolved_part_keeps_the_cause_of_the_sleep(self, books: Books) -> None:
        """A socket whose writer is on another machine, half of the time."""
        books.wakeup_path(SOCKET, {ON_CPU: 100}, abstained_ns=100)

        assert books.book({SOCKET: 50}) == {("dataloader", ""): 25, ("network", ""): 25}

    @pytest.mark.parametrize(
        ("state", "cause"),
        [("PIPE", "own_wait"), ("SOCKET", "network"), ("LOCK", "lock"), ("POLL", "own_wait"), ("OTHER", "other")],
    )
    def test_sleep_without_a_wakeup_path_keeps_its_cause(self, books: Books, state: str, cause: str) -> None:
        """What comes through a pipe comes from a worker only where one is seen."""
        assert books.book({ThreadState[state]: 50}) == {(cause, ""): 50}

    def test_waker_that_slept_itself_leaves_the_cause_to_the_sleep(self, books: Books) -> None:
        """The holder of a lock, a thread of the same process, slept with it."""
        books.wakeup_path(LOCK, {ThreadState.SLEEP: 100}, waker=Waker.THREAD)

        assert books.book({LOCK: 50}) == {("lock", ""): 50}

    @pytest.mark.parametrize("state", [ThreadState.POLL, ThreadState.PIPE])
    @pytest.mark.parametrize("waker", [Waker.THREAD, Waker.LOADER])
    def test_event_loop_that_passes_requests_on_is_an_own_wait(
        self, books: Books, waker: Waker, state: ThreadState
    ) -> None:
        """A server's thread waited until one came, and another thread slept until it was handed on; often, or once in a while."""
        books.wakeup_path(LOCK, {state: 100}, waker=waker)

        assert books.book({LOCK: 50}) == {("own_wait", ""): 50}

    def test_thread_that_works_ahead_is_the_dataloader(self, books: Books) -> None:
        """Whether it computed or slept."""
        books.wakeup_path(LOCK, {ON_CPU: 50, ThreadState.SLEEP: 50}, waker=Waker.LOADER)

        assert books.book({LOCK: 50}) == {("dataloader", ""): 50}

    def test_holder_that_computes_leaves_the_cause_to_the_sleep(self, books: Books) -> None:
        """It is no worker."""
        books.wakeup_path(LOCK, {ON_CPU: 100}, waker=Waker.THREAD)

        assert books.book({LOCK: 50}) == {("lock", ""): 50}

    def test_worker_behind_a_lock_is_the_dataloader(self, books: Books) -> None:
        """A thread of the process handed its data on; whether it computed or slept."""
        books.wakeup_path(LOCK, {ON_CPU: 100, ThreadState.SLEEP: 100}, waker=Waker.PROCESS)

        assert books.book({LOCK: 50}) == {("dataloader", ""): 50}

    def test_wakers_share_by_what_they_did(self, books: Books) -> None:
        """A worker that computed for three quarters of the time, a holder for one."""
        books.wakeup_path(LOCK, {ON_CPU: 300}, waker=Waker.PROCESS)
        books.wakeup_path(LOCK, {ON_CPU: 100}, waker=Waker.THREAD)

        assert books.book({LOCK: 80}) == {("dataloader", ""): 60, ("lock", ""): 20}

    def test_only_what_is_new_of_a_wakeup_path_counts(self, books: Books) -> None:
        """First the disk, then the CPU."""
        books.wakeup_path(PIPE, {IO: 900})
        books.book()
        books.wakeup_path(PIPE, {IO: 900, ON_CPU: 100})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 50}

    def test_wakeup_path_of_another_state_says_nothing(self, books: Books) -> None:
        """A lock is not a pipe."""
        books.wakeup_path(PIPE, {IO: 900})

        assert books.book({LOCK: 50}) == {("lock", ""): 50}

    @pytest.mark.parametrize("state", ["PIPE", "SOCKET", "POLL"])
    def test_worker_that_sleeps_or_waits_for_data_itself_is_the_dataloader(self, books: Books, state: str) -> None:
        """Half of the time for a time-out, half for a pipe."""
        books.wakeup_path(ThreadState[state], {ThreadState.SLEEP: 50, PIPE: 50})

        assert books.book({ThreadState[state]: 50}) == {("dataloader", ""): 50}

    def test_worker_that_reads_back_pages_is_a_major_fault(self, books: Books) -> None:
        """For the part that the kernel says."""
        books.wakeup_path(PIPE, {ON_CPU: 40, ThreadState.FAULT: 60})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 20, ("major_fault", ""): 30}

    def test_worker_whose_writes_are_blocked_is_blocked_output(self, books: Books) -> None:
        """It prints to a log whose reader is slow."""
        books.wakeup_path(PIPE, {OUTPUT: 100})
        books.awaited = {(OUTPUT, TEE): 70}

        assert books.book({PIPE: 50}) == {("blocked_output", "tee"): 50}

    def test_worker_that_hands_its_data_over_slowly_is_the_dataloader(self, books: Books) -> None:
        """No program outside the job reads what it writes."""
        books.wakeup_path(PIPE, {OUTPUT: 100})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 50}

    def test_quota_of_a_worker_is_quota(self, books: Books) -> None:
        """Like every other state of it."""
        books.wakeup_path(PIPE, {ThreadState.THROTTLED: 1})

        assert books.book({PIPE: 50}) == {("cpu_quota", ""): 50}


class TestPipes:
    """Reads whose worker is not followed, and writes."""

    def test_program_outside_the_job_that_writes_is_named(self, books: Books) -> None:
        """`xz -dc data.xz | train`."""
        books.awaited = {(PIPE, XZ): 70}

        assert books.book({PIPE: 50}) == {("own_wait", "xz"): 50}

    def test_worker_that_writes_is_the_dataloader(self, books: Books) -> None:
        """What it did is unknown."""
        books.awaited = {(PIPE, WORKER): 70}

        assert books.book({PIPE: 50}) == {("dataloader", ""): 50}

    def test_thread_of_the_job_that_writes_is_no_worker(self, books: Books) -> None:
        """It wakes an event loop."""
        books.awaited = {(PIPE, LOGGER_THREAD): 70}

        assert books.book({PIPE: 50}) == {("own_wait", "logger"): 50}

    def test_blocked_write_is_charged_to_the_readers(self, books: Books) -> None:
        """In proportion to what was slept for each."""
        books.awaited = {(OUTPUT, TEE): 30, (OUTPUT, RSYNC): 10}

        assert books.book({OUTPUT: 80}) == {("blocked_output", "tee"): 60, ("blocked_output", "rsync"): 20}

    def test_blocked_write_without_a_known_reader_has_no_culprit(self, books: Books) -> None:
        """It was stopped before the exporter started."""
        assert books.book({OUTPUT: 80}) == {("blocked_output", ""): 80}

    def test_reader_is_remembered_for_five_seconds(self, books: Books) -> None:
        """What was slept and what was lost need not be read at once."""
        books.awaited = {(OUTPUT, TEE): 30}
        books.book({}, at=0.0)
        books.book({OUTPUT: 5}, at=5.0)
        assert not books.loss.is_at_rest
        books.book({OUTPUT: 7}, at=6.0)

        assert books.lost() == {("blocked_output", "tee"): 5, ("blocked_output", ""): 7}

    def test_child_that_was_waited_for_is_named(self, books: Books) -> None:
        """`subprocess.run()` in each step."""
        books.awaited = {(ThreadState.CHILD, RSYNC): 30}

        assert books.book({ThreadState.CHILD: 80}) == {("own_wait", "rsync"): 80}


class TestLocks:
    """The holder is the culprit; what it did is no cause, unless others kept it from it."""

    def test_holder_is_the_culprit(self, books: Books) -> None:
        """A thread of the same process, by the thread's name."""
        books.wakeup_path(LOCK, {ON_CPU: 100}, waker=Waker.THREAD)
        books.awaited = {(LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("lock", "logger"): 50}

    def test_holder_in_another_process_is_the_culprit(self, books: Books) -> None:
        """A file is locked, by a program outside the job."""
        books.wakeup_path(LOCK, {}, abstained_ns=100, waker=Waker.OTHER)
        books.awaited = {(LOCK, RSYNC): 100}

        assert books.book({LOCK: 50}) == {("lock", "rsync"): 50}

    def test_worker_that_holds_the_lock_of_a_file_is_no_dataloader(self, books: Books) -> None:
        """It hands on no data."""
        books.wakeup_path(LOCK, {ON_CPU: 60, ThreadState.SLEEP: 40}, waker=Waker.HOLDER)
        books.awaited = {(LOCK, WORKER): 100}

        assert books.book({LOCK: 50}) == {("lock", "python"): 50}

    def test_holder_that_waits_for_a_cpu_behind_the_job_itself_is_still_the_lock(self, books: Books) -> None:
        """Workers that have not changed are not the reason."""
        books.wakeup_path(LOCK, {ON_CPU: 50, RUNNABLE: 50}, waker=Waker.THREAD)
        books.charge(OWN_OF_OTHER, 300)
        books.awaited = {(LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("lock", "logger"): 50}

    def test_holder_that_waits_for_a_cpu_behind_another_program(self, books: Books) -> None:
        """That part is the program's."""
        books.wakeup_path(LOCK, {ON_CPU: 40, RUNNABLE: 60}, waker=Waker.THREAD)
        books.charge(CC_OF_OTHER, 300)
        books.awaited = {(LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("lock", "logger"): 20, ("cpu_contention", "cc1"): 30}

    @pytest.mark.parametrize(
        ("state", "cause"), [("IO", "block_io"), ("FAULT", "major_fault"), ("THROTTLED", "cpu_quota")]
    )
    def test_holder_that_waits_for_something_else(self, books: Books, state: str, cause: str) -> None:
        """A disk, a page, its quota."""
        books.wakeup_path(LOCK, {ON_CPU: 40, ThreadState[state]: 60}, waker=Waker.THREAD)

        assert books.book({LOCK: 50}) == {("lock", ""): 20, (cause, ""): 30}

    def test_holder_whose_writes_are_blocked(self, books: Books) -> None:
        """It holds the lock of the log."""
        books.wakeup_path(LOCK, {OUTPUT: 100}, waker=Waker.THREAD)
        books.awaited = {(OUTPUT, TEE): 100, (LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("blocked_output", "tee"): 50}

    def test_undecided_wait_of_a_holder_is_reported(self, books: Books) -> None:
        """Charges come later; a process that ends has none."""
        books.wakeup_path(LOCK, {RUNNABLE: 100}, waker=Waker.THREAD)
        books.book({LOCK: 50}, at=1.0)
        assert books.loss.undecided_ns() == 50
        books.loss.finish()

        assert books.lost() == {("unknown", ""): 50}


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
