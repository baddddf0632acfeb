"""standstill: jobs in which no step ends and no kernel is launched."""

from __future__ import annotations

import pytest

from exporter.accounting.progress import Standing
from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, End, Severity, Transition
from exporter.chains.ranks import Missing
from exporter.chains.standstill import Standstill
from exporter.kernel.abi import ThreadState
from tests.unit.chains.job import DISK, SECOND, Scene, changes
from tests.unit.chains.states import MS, a_state

IN_CALL = Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 5 * SECOND)


class Watched:
    """A process whose steps take 10 ms, and that has made its last one at second 0."""

    def __init__(self, pace_ns: int = 10 * MS) -> None:
        self.standstill = Standstill(1, lambda: "1" * 32)
        self.pace_ns = pace_ns
        self.steps = 100
        self.now_seconds = 1000.0
        self._began_seconds = self.now_seconds
        self.at(0)

    def at(
        self,
        seconds: float,
        standing: Standing | None = None,
        missing_for: float | None = None,
        *,
        steps: int = 100,
        kernels: int = 0,
        slow_step_ns: int = 0,
        is_explained: bool = False,
    ) -> list[Transition]:
        """missing_for: seconds for which rank 3, this process, has been missing in a collective."""
        self.now_seconds = self._began_seconds + seconds
        missing = None
        if missing_for is not None:
            missing = Missing(1, 3, round((self.now_seconds - missing_for) * SECOND), 77)
        seen = a_state(self.now_seconds, steps=steps, kernels=kernels, standing=standing)
        return self.standstill.update(seen, missing, self.pace_ns, slow_step_ns=slow_step_ns, is_explained=is_explained)


class TestStalled:
    """For any reason."""

    @pytest.mark.parametrize(
        ("pace_ms", "seconds", "is_open"),
        [(10, 4.9, False), (10, 5.0, True), (2000, 19.0, False), (2000, 20.0, True)],
    )
    def test_five_seconds_and_ten_steps_are_needed(self, pace_ms: int, seconds: float, *, is_open: bool) -> None:
        """Both."""
        opened = Watched(pace_ms * MS).at(seconds, IN_CALL)

        assert bool(opened) is is_open

    def test_chain_has_its_onset_and_what_the_thread_does(self) -> None:
        ((change, chain),) = Watched().at(12, IN_CALL)

        assert (change, chain.cause, chain.effect, chain.severity) == (
            Change.OPENED,
            Cause.STALLED,
            Effect.STEP,
            Severity.HIGH,
        )
        assert (chain.began_ns, chain.opened_ns) == (1000 * SECOND, 1012 * SECOND)
        assert (chain.slowdown, chain.usual_step_ns, chain.lost_share) == (None, 10 * MS, 1.0)
        assert chain.detail == (
            "no step has ended and no kernel was launched for 12 s: thread 4711 has been in cudaStreamSynchronize for 5.0 s"
        )

    def test_threads_are_wanted_before_it_opens(self) -> None:
        """They are not read otherwise, and without them nothing is known."""
        watched = Watched()

        assert watched.at(5) == []
        assert watched.standstill.needs_threads
        assert watched.at(5.25, IN_CALL)

    def test_kernel_launches_are_progress(self) -> None:
        """An evaluation without steps."""
        watched = Watched()
        watched.at(4, IN_CALL, kernels=1)

        assert watched.at(8, IN_CALL, kernels=1) == []
        assert not watched.standstill.needs_threads

    @pytest.mark.parametrize(
        ("state", "is_open"),
        [
            (ThreadState.POLL, False),
            (ThreadState.OTHER, False),
            (ThreadState.LOCK, True),
            (ThreadState.SLEEP, True),
            (ThreadState.ON_CPU, True),
        ],
    )
    def test_job_that_waits_for_input_has_not_stalled(self, state: ThreadState, *, is_open: bool) -> None:
        """A server waits for a request, a notebook for its user. In a call each of them would count."""
        assert bool(Watched().at(60, Standing(4711, "", state, SECOND))) is is_open
        assert Watched().at(60, Standing(4711, "cudaFree", state, SECOND))

    def test_job_without_a_rhythm_has_none(self) -> None:
        """How long a step may take is not known."""
        assert Watched(pace_ns=0).at(60, IN_CALL) == []

    def test_ten_steps_are_as_long_as_an_open_chain_makes_them(self) -> None:
        """A GPU at half of its clock: 12 s are twelve usual steps, but six of these."""
        watched = Watched(1000 * MS)

        assert watched.at(12, IN_CALL, slow_step_ns=2000 * MS) == []
        assert watched.at(20, IN_CALL, slow_step_ns=2000 * MS)

    def test_job_that_is_held_up_by_another_cause_has_none(self) -> None:
        """A resource of the host holds it up, or another rank."""
        assert Watched().at(60, IN_CALL, is_explained=True) == []


class TestCourse:
    """What becomes of an open chain."""

    def test_it_is_critical_after_a_minute(self) -> None:
        """A checkpoint takes a while. Once."""
        watched = Watched()
        watched.at(6, IN_CALL)

        assert watched.at(59, IN_CALL) == []
        ((change, chain),) = watched.at(60, IN_CALL)
        assert (change, chain.severity) == (Change.ESCALATED, Severity.CRITICAL)
        assert watched.at(61, IN_CALL) == []

    def test_progress_resolves_it(self) -> None:
        """At the tick in which it is seen."""
        watched = Watched()
        watched.at(6, IN_CALL)
        ((change, chain),) = watched.at(9, steps=101)

        assert (change, chain.end, chain.resolved_ns) == (Change.RESOLVED, End.RECOVERED, 1009 * SECOND)
        assert watched.standstill.chains == []

    def test_all_time_since_its_onset_is_lost(self) -> None:
        """When it opens, while it is open, and until it is over."""
        watched = Watched()
        ((_, opened),) = watched.at(6, IN_CALL)
        watched.at(8, IN_CALL)
        (still_open,) = watched.standstill.chains
        ((_, resolved),) = watched.at(9, steps=101)

        assert [chain.lost_ns // SECOND for chain in (opened, still_open, resolved)] == [6, 8, 9]

    def test_end_of_the_process_resolves_it(self) -> None:
        watched = Watched()
        watched.at(6, IN_CALL)
        ((change, chain),) = watched.standstill.end(1008 * SECOND)

        assert (change, chain.end) == (Change.RESOLVED, End.JOB_ENDED)

    def test_without_a_chain_the_end_is_silent(self) -> None:
        assert Watched().standstill.end(1008 * SECOND) == []


class TestHang:
    """A collective that it has not entered."""

    @pytest.mark.parametrize(
        ("pace_ms", "missing_for", "is_open"),
        [(10, 1.9, False), (10, 2.0, True), (500, 4.9, False), (500, 5.0, True), (0, 29.0, False), (0, 30.0, True)],
    )
    def test_two_seconds_and_ten_steps_are_needed(self, pace_ms: int, missing_for: float, *, is_open: bool) -> None:
        """Half a minute where no step is known."""
        assert bool(Watched(pace_ms * MS).at(40, missing_for=missing_for, is_explained=True)) is is_open

    def test_chain_names_the_missing_rank_since_the_last_arrival(self) -> None:
        ((_, chain),) = Watched().at(10, missing_for=4)

        assert (chain.cause, chain.effect, chain.severity, chain.peer) == (
            Cause.NCCL_HANG,
            Effect.COLLECTIVE,
            Severity.CRITICAL,
            "3",
        )
        assert chain.began_ns == 1006 * SECOND

    def test_it_is_over_when_the_rank_arrives(self) -> None:
        watched = Watched()
        watched.at(3, missing_for=3)
        ((change, chain),) = watched.at(4, steps=101)

        assert (change, chain.cause, chain.end) == (Change.RESOLVED, Cause.NCCL_HANG, End.RECOVERED)

    def test_standstill_becomes_a_hang(self) -> None:
        """The communicator is found later: the same chain, which is critical now."""
        watched = Watched()
        ((_, stalled),) = watched.at(6, IN_CALL)
        ((change, chain),) = watched.at(7, IN_CALL, missing_for=7)

        assert (change, chain.id, chain.cause, chain.severity) == (
            Change.ESCALATED,
            stalled.id,
            Cause.NCCL_HANG,
            Severity.CRITICAL,
        )

    def test_rank_that_is_two_steps_late_is_in_doubt(self) -> None:
        """Its slow steps are not judged yet. One that has gone on since then is not."""
        watched = Watched()
        watched.at(1, missing_for=0.015)
        within_two_steps = watched.standstill.is_in_doubt
        watched.at(1, missing_for=0.5)
        later = watched.standstill.is_in_doubt
        watched.at(1.25, missing_for=0.5, steps=101)

        assert (within_two_steps, later, watched.standstill.is_in_doubt) == (False, True, False)


class TestInAJob:
    """No step, no kernel."""

    def test_job_stuck_in_a_call_has_stalled_after_five_seconds(self, scene: Scene) -> None:
        """Nothing is lost by the accounting: the call waits for the GPU."""
        standing = Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 5 * SECOND)
        scene.go_on(4.75, step_ms=None, standing=standing)
        assert scene.transitions == []
        (opened,) = scene.go_on(1, step_ms=None, standing=standing)
        scene.go_on(1)

        assert (opened.chain.cause, opened.chain.severity) == (Cause.STALLED, Severity.HIGH)
        assert opened.chain.detail == (
            "no step has ended and no kernel was launched for 5 s: thread 4711 has been in cudaStreamSynchronize for 5.0 s"
        )
        assert changes(scene.transitions) == [(Change.OPENED, Cause.STALLED), (Change.RESOLVED, Cause.STALLED)]

    @pytest.mark.parametrize(
        ("cause", "how"),
        [
            (Cause.GPU, {"in_calls": {Effect.SYNC: 0.5}}),
            (Cause.OWN_CODE, {"computing": 0.33}),
        ],
    )
    def test_job_that_was_slow_of_itself_and_then_stops_has_stalled(
        self, scene: Scene, cause: Cause, how: dict[str, object]
    ) -> None:
        """Its open chain is about steps that ended, and stays open."""
        scene.go_on(12, step_ms=15.0, **how)
        slow = changes(scene.transitions)
        stopped = scene.go_on(6, step_ms=None, standing=IN_CALL)

        assert (slow, changes(stopped)) == ([(Change.OPENED, cause)], [(Change.OPENED, Cause.STALLED)])

    def test_job_that_a_disk_holds_up_has_not_stalled(self, scene: Scene) -> None:
        """The chain of the disk says why no step ends."""
        scene.go_on(8, step_ms=15.0, lost={DISK: 0.33})
        scene.go_on(20, step_ms=None, lost={DISK: 1.0}, standing=Standing(4711, "", ThreadState.IO, SECOND))

        assert [chain.cause for chain in scene.engine.open_chains()] == [Cause.BLOCK_IO]

    def test_communicators_with_open_operations_are_named(self, scene: Scene) -> None:
        """Also those whose rank and hash are unknown."""
        scene.jobs[0].unfinished = {0: 2, 3: 1}
        (opened,) = scene.go_on(
            6, step_ms=None, standing=Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 0)
        )

        assert opened.chain.detail.endswith(
            "; communicator 0 waits for 2 operations; communicator 3 waits for 1 operations"
        )

    def test_it_is_critical_after_a_minute(self, scene: Scene) -> None:
        """A checkpoint takes a while."""
        scene.go_on(70, step_ms=None, standing=Standing(4711, "", ThreadState.LOCK, SECOND))

        assert scene.engine.open_chains()[0].severity is Severity.CRITICAL

    def test_job_that_waits_for_input_has_not_stalled(self, scene: Scene) -> None:
        """A notebook between two cells."""
        assert scene.go_on(60, step_ms=None, standing=Standing(4711, "", ThreadState.POLL, SECOND)) == []
