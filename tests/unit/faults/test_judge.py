"""books and judge: runs of one process written by hand, ticks of 250 ms and steps of 10."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.causes import Cause
from exporter.kernel.abi import ThreadState
from exporter.recording.codec import MAPS, Rows, Tick, difference
from tests.faults.books import Excess, books, excess, first_after, goes_back, last_before, truth_of
from tests.faults.episode import Episode
from tests.faults.job import Step, Window
from tests.faults.judge import Judgement, judge
from tests.faults.recording import RecordedRun, Recording
from tests.support.tables import By, FakeTables

MS = 1_000_000
IO, LOCK = ThreadState.IO, ThreadState.LOCK
TGID = 4711
EPISODE = Episode("by-hand", "a disk", Cause.BLOCK_IO, steps=100, window=Window(41, 61))


def run_of(walls_ms: Mapping[int, int], dry_ms: list[By]) -> RecordedRun:
    """Steps of these lengths, and a tick every 250 ms with these stalls of the dry GPU so far."""
    steps, start_ns = [], 0
    for number, wall_ms in walls_ms.items():
        steps.append(Step(0, number, start_ns, start_ns + wall_ms * MS, 0, 0, 0, 0))
        start_ns += wall_ms * MS
    ticks, before = [], dict[str, Rows]()
    for i, so_far in enumerate(dry_ms):
        fake = FakeTables()
        fake.process(1, tgid=TGID)
        fake.feeding(1, dry_ns={state: ms * MS for state, ms in so_far.items()})
        now: dict[str, Rows] = {name: dict(fake.maps[name].items()) for name in MAPS}
        ticks.append(Tick(i * 250 * MS, difference(before, now)))
        before = now
    return RecordedRun(tuple(steps), None, {0: TGID}, tuple(ticks))


# Clean: 100 steps of 10 ms, in each 1 ms of a lock. Faulty: steps 41 to 60 take 30, of which 20 are the disk's.
CLEAN = run_of(dict.fromkeys(range(1, 101), 10), [{LOCK: 25 * i} for i in range(5)])
FAULTY = run_of(
    {number: 30 if 41 <= number < 61 else 10 for number in range(1, 101)},
    [
        {},
        {LOCK: 25},
        {LOCK: 43, IO: 60},
        {LOCK: 51, IO: 220},
        {LOCK: 60, IO: 400},
        {LOCK: 85, IO: 400},
        {LOCK: 100, IO: 400},
    ],
)
RECORDING = Recording("by-hand", CLEAN, FAULTY)


class TestBooks:
    """What is lost up to each tick."""

    def test_losses_are_cumulative_by_tgid(self) -> None:
        """A lock's 25 ms in each quarter of a second."""
        found = [entry[TGID].get((Cause.LOCK, ""), 0) for entry in books(CLEAN)]

        assert found == [0, 25 * MS, 50 * MS, 75 * MS, 100 * MS]

    def test_ticks_around_a_moment(self) -> None:
        """At the ends of the run there is no other."""
        found = [(last_before(CLEAN, at * MS), first_after(CLEAN, at * MS)) for at in (-1, 0, 300, 500, 2_000)]

        assert found == [(0, 0), (0, 0), (1, 2), (2, 2), (4, 4)]

    def test_sum_that_goes_back_is_noticed(self) -> None:
        """By one nanosecond."""
        key = (Cause.LOCK, "")

        assert goes_back(({1: {key: 5}}, {1: {key: 4}}))
        assert not goes_back(({1: {key: 5}}, {1: {key: 5}}, {1: {key: 6}}))


class TestExcess:
    """What is the fault's."""

    def test_truth_is_of_the_steps(self) -> None:
        """Twenty of them, 20 ms each."""
        assert truth_of(EPISODE, RECORDING).lost_ns() == 400 * MS

    def test_usual_loss_is_left_out(self) -> None:
        """The lock costs a millisecond a step in both runs, so only the disk is left."""
        found = excess(EPISODE, RECORDING, 0)

        assert found.by_cause() == {"block_io": pytest.approx(400 * MS), "lock": pytest.approx(0, abs=3 * MS)}
        assert found.share("block_io") > 0.99

    def test_wall_time_is_that_of_the_ticks_around(self) -> None:
        """The window begins at 400 ms and is paid for at 1,050; another tick is waited for."""
        assert excess(EPISODE, RECORDING, 0).wall_ns == (1_500 - 250) * MS


class TestJudgement:
    """What is right and what is not."""

    RIGHT = judge(EPISODE, RECORDING)[0]
    BOOKED = RIGHT.excess.booked_ns

    def booked(self, booked_ms: Mapping[tuple[Cause, str], float]) -> Judgement:
        """The same with other books."""
        booked_ns = {key: ms * MS for key, ms in booked_ms.items()}
        return replace(self.RIGHT, excess=Excess(booked_ns, 1_000 * MS))

    def test_all_is_right(self) -> None:
        """Loss, cause and culprit; a disk has none."""
        assert (self.RIGHT.expected, self.RIGHT.complaints()) == (("block_io",), [])

    def test_loss_a_quarter_off_is_wrong(self) -> None:
        """Both ways."""
        found = [self.booked({(Cause.BLOCK_IO, ""): ms}).complaints() for ms in (280, 310, 490, 520)]

        assert found == [["loss -30 %"], [], [], ["loss +30 %"]]

    def test_other_cause_is_wrong(self) -> None:
        """A fifth of it may be."""
        right = self.booked({(Cause.BLOCK_IO, ""): 325, (Cause.LOCK, ""): 75})
        wrong = self.booked({(Cause.BLOCK_IO, ""): 180, (Cause.LOCK, ""): 220})

        assert (right.complaints(), wrong.complaints()) == ([], ["cause lock"])

    def test_culprit_is_that_of_the_expected_cause(self) -> None:
        """Who is charged most of it."""
        episode = replace(EPISODE, cause=Cause.CPU_CONTENTION, culprit="hog")
        contended = {(Cause.CPU_CONTENTION, "hog"): 300.0, (Cause.CPU_CONTENTION, "cc1"): 100.0}
        one = replace(self.booked(contended), episode=episode, expected=("cpu_contention",))
        other = replace(one, episode=replace(episode, culprit="cc1"))

        assert (one.complaints(), other.complaints()) == ([], ["culprit"])

    def test_decoy_must_be_silent(self) -> None:
        """A twentieth of a second is the most."""
        quiet = replace(self.booked({(Cause.LOCK, ""): 49}), expected=())
        loud = replace(self.booked({(Cause.LOCK, ""): 60}), expected=())

        assert (quiet.complaints(), loud.complaints()) == ([], ["not silent: 6 %"])

    def test_decoy_that_books_less_than_usual_is_silent(self) -> None:
        """The clean run was disturbed."""
        assert replace(self.booked({(Cause.LOCK, ""): -100}), expected=()).complaints() == []

    def test_late_rank_has_a_fault_of_its_own(self) -> None:
        """The other one only waits."""
        clean, faulty = (
            replace(one, steps=(*one.steps, *_of_rank_1(one)), tgids={0: TGID, 1: 1}) for one in (CLEAN, FAULTY)
        )
        episode = replace(EPISODE, cause=Cause.SLOW_RANK, culprit="trainer", culprit_rank=1, ranks=2)
        found = judge(episode, Recording("by-hand", clean, faulty))

        assert [one.expected for one in found] == [(), ("own_wait",)]


def _of_rank_1(run: RecordedRun) -> list[Step]:
    return [replace(step, rank=1) for step in run.steps]
