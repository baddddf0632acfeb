"""workers: what has grown of their work per step is what makes them late."""

from __future__ import annotations

import pytest

from exporter.accounting.workers import Work, WorkDone, Workers
from exporter.kernel.abi import ThreadState, Waker
from exporter.kernel.thread_rows import WakeupRow
from tests.support.lost_time import states_of

SECOND = 1_000_000_000
COMPUTED: Work = (Waker.PROCESS, ThreadState.ON_CPU)
READ: Work = (Waker.PROCESS, ThreadState.IO)
WAITED: Work = (Waker.PROCESS, ThreadState.RUNNABLE)


class Job:
    """Its worker makes the data of each step."""

    def __init__(self) -> None:
        self.workers = Workers()
        self._now_ns = 0
        self._steps = 0
        self._did: dict[ThreadState, int] = {}

    def go_on(self, seconds: int, *, lost: int = 0, steps: int = 10, **did: int) -> None:
        """So many seconds. lost, steps: in each of them. did: of the worker for one step, by state."""
        for _ in range(seconds):
            self._now_ns += SECOND
            self._steps += steps
            for name, ns in did.items():
                state = ThreadState[name.upper()]
                self._did[state] = self._did.get(state, 0) + ns * steps
            row = WakeupRow(self._steps, sum(self._did.values()), 0, states_of(self._did))
            self.workers.update(WorkDone({Waker.PROCESS: row}, self._steps), lost, self._now_ns)


@pytest.fixture
def job() -> Job:
    """For a minute the worker has computed 40 ns for each step, behind the GPU's work."""
    job = Job()
    job.go_on(60, on_cpu=40)
    return job


class TestShare:
    def test_work_that_was_hidden_is_no_reason(self, job: Job) -> None:
        """It waits for a CPU for 60 ns besides. During the sleep of 30 ns it computed for a third of the time."""
        job.go_on(3, on_cpu=40, runnable=60, lost=300)

        assert job.workers.share({COMPUTED: 100, WAITED: 200}) == {WAITED: 300}

    def test_work_that_has_become_more_is_one(self, job: Job) -> None:
        """It computes for 20 ns longer, and waits for a CPU for 60."""
        job.go_on(3, on_cpu=60, runnable=60, lost=300)

        assert job.workers.share({COMPUTED: 300}) == {COMPUTED: 75, WAITED: 225}

    def test_steps_that_take_longer_are_no_growth(self, job: Job) -> None:
        """Five in a second instead of ten, each with the same work and a read."""
        job.go_on(3, on_cpu=40, io=80, lost=500, steps=5)

        assert job.workers.share({COMPUTED: 200, READ: 300}) == {READ: 500}

    def test_loss_as_usual_is_for_what_it_has_always_been(self) -> None:
        """A job that waits for the worker's computing for 100 in each second, and for 100 more beside a flooded disk."""
        job = Job()
        job.go_on(60, on_cpu=40, lost=100)
        job.go_on(3, on_cpu=40, io=10, lost=200)

        assert job.workers.share({COMPUTED: 500, READ: 500}) == {COMPUTED: 250, READ: 750}

    def test_fault_of_minutes_is_not_the_usual(self, job: Job) -> None:
        job.go_on(170, on_cpu=40, runnable=60, lost=300)

        assert job.workers.share({COMPUTED: 100, WAITED: 200}) == {WAITED: 300}

    def test_what_has_lasted_for_longer_is_the_usual(self, job: Job) -> None:
        """It costs what it costs: what the worker did during the sleeps counts."""
        job.go_on(300, on_cpu=40, runnable=60, lost=300)

        assert job.workers.share({COMPUTED: 100, WAITED: 200}) == {COMPUTED: 100, WAITED: 200}

    def test_growth_of_less_than_half_of_the_loss_explains_nothing(self, job: Job) -> None:
        """The GPU's work no longer hides the worker's."""
        job.go_on(3, on_cpu=41, lost=200)

        assert job.workers.share({COMPUTED: 200}) == {COMPUTED: 200}

    def test_nothing_is_usual_before_six_seconds_are_known(self) -> None:
        job = Job()
        job.go_on(5, on_cpu=40)
        job.go_on(1, on_cpu=40, runnable=60, lost=300)

        assert job.workers.share({COMPUTED: 100, WAITED: 200}) == {COMPUTED: 100, WAITED: 200}

    def test_step_that_takes_longer_than_a_second_is_one_period(self) -> None:
        """A step in three seconds."""
        job = Job()
        for _ in range(20):
            job.go_on(2, steps=0)
            job.go_on(1, steps=1, on_cpu=40)
        for _ in range(2):
            job.go_on(2, steps=0, lost=30)
            job.go_on(1, steps=1, on_cpu=40, runnable=60, lost=30)

        assert job.workers.share({COMPUTED: 100, WAITED: 200}) == {WAITED: 300}
