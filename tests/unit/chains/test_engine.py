"""chains.engine: episodes of jobs with a baseline of 10 ms a step, second by second."""

from __future__ import annotations

import signal
from itertools import pairwise

import pytest

from exporter.accounting.culprits import NOBODY
from exporter.accounting.progress import Standing
from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, End, Severity, Transition
from exporter.chains.exit_reason import Ending
from exporter.chains.memory import Allocations
from exporter.kernel.abi import ThreadState
from tests.unit.chains.job import SECOND, Job, Loss, Scene

HOG = (Cause.CPU_CONTENTION, "stress-ng")
DISK = (Cause.BLOCK_IO, NOBODY)
OWN_SLEEP = (Cause.OTHER, NOBODY)
SLEEP = (Cause.OWN_WAIT, NOBODY)


def changes(transitions: list[Transition]) -> list[tuple[Change, Cause]]:
    """What happened to which chains."""
    return [(change, chain.cause) for change, chain in transitions]


@pytest.fixture
def scene() -> Scene:
    """A job that has run for twenty seconds without a chain."""
    scene = Scene()
    assert scene.go_on(20) == []
    return scene


class TestOpening:
    """It is slower, and the host explains it."""

    def test_twice_as_slow_opens_a_chain_within_a_second(self, scene: Scene) -> None:
        """Steps of 20 ms, half of the time lost to the disk."""
        (opened,) = scene.go_on(1, step_ms=20.0, lost={DISK: 0.5})

        assert (opened.change, opened.chain.cause, opened.chain.effect) == (Change.OPENED, Cause.BLOCK_IO, Effect.GAP)
        assert opened.chain.severity is Severity.CRITICAL
        assert opened.chain.slowdown == pytest.approx(1.0, abs=0.05)
        assert opened.chain.lost_share == pytest.approx(0.5, abs=0.02)
        assert opened.chain.contribution == pytest.approx(1.0, abs=0.05)
        assert opened.chain.began_ns == 1_020 * SECOND

    def test_a_fifth_slower_opens_a_chain_within_three_seconds(self, scene: Scene) -> None:
        """A sixth of the time."""
        (opened,) = scene.go_on(3, step_ms=12.0, lost={DISK: 1 / 6})

        assert (opened.chain.cause, opened.chain.severity) == (Cause.BLOCK_IO, Severity.MEDIUM)

    def test_a_twentieth_slower_opens_a_chain_within_fifteen_seconds(self, scene: Scene) -> None:
        """A twenty-first of the time."""
        (opened,) = scene.go_on(15, step_ms=10.5, lost={DISK: 0.0476})

        assert (opened.chain.cause, opened.chain.severity) == (Cause.BLOCK_IO, Severity.LOW)

    def test_what_is_lost_counts_beyond_what_a_verdict_looks_back_on(self, scene: Scene) -> None:
        """3.4 % of the time are 340 ms in ten seconds, and the 400 ms that are enough in twelve."""
        assert scene.go_on(11, step_ms=10.35, lost={DISK: 0.034}) == []
        (opened,) = scene.go_on(2, step_ms=10.35, lost={DISK: 0.034})

        assert opened.chain.cause is Cause.BLOCK_IO

    def test_one_better_second_does_not_clear_a_job_that_is_a_little_slower(self, scene: Scene) -> None:
        """230 ms in six seconds, then 15 ms in one, less than is allowed, and 190 ms in five."""
        slower: dict[str, object] = {"step_ms": 10.4, "lost": {DISK: 0.0385}}
        assert scene.go_on(6, **slower) == []
        assert scene.go_on(1, step_ms=10.15, lost={DISK: 0.015}) == []
        (opened,) = scene.go_on(5, **slower)

        assert opened.chain.cause is Cause.BLOCK_IO

    def test_one_episode_is_one_chain(self, scene: Scene) -> None:
        """However long it lasts."""
        assert changes(scene.go_on(120, step_ms=20.0, lost={DISK: 0.5})) == [(Change.OPENED, Cause.BLOCK_IO)]

    def test_culprits_are_named_with_their_parts(self, scene: Scene) -> None:
        """Three quarters of it are stress-ng's."""
        (opened,) = scene.go_on(2, step_ms=20.0, lost={HOG: 0.375, (Cause.CPU_CONTENTION, "python"): 0.125})

        assert [(name, round(part, 2)) for name, part in opened.chain.culprits] == [
            ("stress-ng", 0.75),
            ("python", 0.25),
        ]

    def test_chain_has_the_time_lost_to_its_cause(self, scene: Scene) -> None:
        """Half of every second since the onset, for all culprits; at its opening as ten seconds later."""
        (opened,) = scene.go_on(2, step_ms=20.0, lost={HOG: 0.375, (Cause.CPU_CONTENTION, "python"): 0.125})
        scene.go_on(10, step_ms=20.0, lost={HOG: 0.5})
        (later,) = scene.engine.open_chains()

        for chain in (opened.chain, later):
            assert chain.lost_ns == pytest.approx((chain.updated_ns - chain.began_ns) / 2, abs=0.3e9)

    def test_what_is_lost_in_waits_for_the_gpu_is_of_effect_sync(self, scene: Scene) -> None:
        """The call that waits comes back late."""
        (opened,) = scene.go_on(2, step_ms=20.0, lost={HOG: 0.5}, exposed=0.5)

        assert opened.chain.effect is Effect.SYNC

    def test_half_a_second_without_a_step_opens_a_chain(self, scene: Scene) -> None:
        """A signal stopped the job; that is booked when it goes on."""
        scene.go_on(0.5, step_ms=None)
        (opened,) = scene.go_on(0.25, lost={(Cause.PAUSED, NOBODY): 2.0})

        assert (opened.chain.cause, opened.chain.slowdown) == (Cause.PAUSED, pytest.approx(2.0, abs=0.1))

    def test_stopped_job_has_a_chain_while_it_is_stopped(self, scene: Scene) -> None:
        """Its threads are read once no step has ended for a while; nothing of it is accounted yet."""
        before = scene.go_on(0.75, step_ms=None)
        wanted = scene.engine.wanted
        scene.jobs[0].stopped_ns = SECOND
        (opened,) = scene.go_on(0.25, step_ms=None)

        assert (before, wanted.with_threads, opened.chain.cause) == ([], True, Cause.PAUSED)

    def test_a_hitch_opens_no_chain(self, scene: Scene) -> None:
        """A quarter of a second, once."""
        scene.go_on(0.25, step_ms=None, lost={DISK: 1.0})

        assert scene.go_on(20) == []

    def test_job_without_a_rhythm_is_judged_by_what_it_lost(self) -> None:
        """No step is known, so there is no slowdown."""
        scene = Scene(Job(has_rhythm=False))
        scene.go_on(20, lost={DISK: 0.05})
        (opened,) = scene.go_on(3, lost={DISK: 0.35})

        assert (opened.chain.cause, opened.chain.slowdown, opened.chain.usual_step_ns) == (Cause.BLOCK_IO, None, 0)
        assert opened.chain.lost_share == pytest.approx(0.3, abs=0.02)

    def test_loss_that_is_usual_is_no_news(self) -> None:
        """A fifth of the time from the beginning, and steps no slower for it."""
        scene = Scene()

        assert scene.go_on(60, lost={DISK: 0.2}) == []


class TestAbstaining:
    """The host is not the reason, or nothing is wrong."""

    def test_slower_without_a_loss_is_not_the_host(self, scene: Scene) -> None:
        """After three seconds; never above medium."""
        before = scene.go_on(2.75, step_ms=20.0)
        (opened,) = scene.go_on(1, step_ms=20.0)

        assert (before, opened.chain.cause, opened.chain.severity) == ([], Cause.GPU, Severity.MEDIUM)

    def test_host_with_several_small_causes_is_the_reason(self, scene: Scene) -> None:
        """Half of the time is lost: 0.3 to a disk, 0.2 to a hog, 0.2 to a lock. The largest, once the host could be ruled out."""
        lost = {DISK: 0.15, HOG: 0.1, (Cause.LOCK, NOBODY): 0.1}
        before = scene.go_on(2.75, step_ms=20.0, lost=lost)
        (opened,) = scene.go_on(1, step_ms=20.0, lost=lost)

        assert (before, opened.chain.cause) == ([], Cause.BLOCK_IO)
        assert opened.chain.contribution == pytest.approx(0.3, abs=0.02)

    def test_host_with_less_than_half_in_small_causes_is_not_the_reason(self, scene: Scene) -> None:
        """0.15 each for three of them."""
        (opened,) = scene.go_on(5, step_ms=20.0, lost={DISK: 0.075, HOG: 0.075, (Cause.LOCK, NOBODY): 0.075})

        assert (opened.chain.cause, opened.chain.contribution) == (Cause.GPU, pytest.approx(0.55, abs=0.02))

    def test_cause_of_the_job_that_was_found_too_early_is_replaced(self, scene: Scene) -> None:
        """Four slow seconds without a loss, which is booked later: the same episode, with its reason."""
        scene.go_on(4, step_ms=20.0)
        scene.go_on(0.25, step_ms=20.0, lost={DISK: 10.0})
        scene.go_on(2, step_ms=20.0)

        assert changes(scene.transitions) == [(Change.OPENED, Cause.GPU), (Change.ESCALATED, Cause.BLOCK_IO)]
        assert len({transition.chain.id for transition in scene.transitions}) == 1

    def test_burst_that_is_over_opens_no_chain_of_the_job(self, scene: Scene) -> None:
        """A second of it, and a few that are hardly slower: steps were slow, and no longer are."""
        scene.go_on(1, step_ms=20.0)

        assert scene.go_on(6, step_ms=10.4) == []

    def test_fault_that_has_just_begun_opens_no_chain_of_the_job(self, scene: Scene) -> None:
        """The first ticks of it, of which the reason is not known yet."""
        scene.go_on(2.75, step_ms=12.0)
        scene.jobs[0].undecided_ns = SECOND // 10

        assert scene.go_on(0.5, step_ms=40.0) == []

    def test_contribution_of_what_no_host_explains_stays(self, scene: Scene) -> None:
        """As long as it goes on."""
        scene.go_on(10, step_ms=20.0)
        (chain,) = scene.engine.open_chains()

        assert (chain.cause, chain.contribution) == (Cause.GPU, pytest.approx(1.0, abs=0.05))

    @pytest.mark.parametrize("effect", [Effect.SYNC, Effect.MEMCPY, Effect.LAUNCH])
    def test_what_takes_longer_is_named(self, effect: Effect) -> None:
        """Calls take a tenth of the time at the baseline, and now 0.6 of it in steps twice as long."""
        scene = Scene()
        scene.go_on(20, in_calls={Effect.SYNC: 0.1, effect: 0.1})
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls={Effect.SYNC: 0.05, effect: 0.6})

        assert (opened.chain.cause, opened.chain.effect) == (Cause.GPU, effect)

    def test_allocations_in_every_step_are_churn(self, scene: Scene) -> None:
        """Half of the time is spent in them."""
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls={Effect.ALLOC: 0.5})

        assert (opened.chain.cause, opened.chain.effect) == (Cause.ALLOCATION_CHURN, Effect.ALLOC)
        assert opened.chain.contribution == pytest.approx(1.0, abs=0.05)

    def test_loss_that_explains_little_is_not_the_host(self, scene: Scene) -> None:
        """A tenth of the time was lost, a half is to be explained."""
        (opened,) = scene.go_on(5, step_ms=20.0, lost={DISK: 0.1})

        assert opened.chain.cause is Cause.GPU
        assert dict(opened.chain.shares)["block_io"] == pytest.approx(0.2, abs=0.02)

    def test_a_little_slower_without_a_reason_is_not_worth_a_word(self, scene: Scene) -> None:
        """Eight percent."""
        assert scene.go_on(60, step_ms=10.8) == []

    def test_more_work_in_a_step_is_another_phase(self, scene: Scene) -> None:
        """Twice the calls, and twice the time: that is the usual from then on."""
        assert scene.go_on(60, step_ms=20.0, calls_per_step=100) == []

    def test_pause_that_begins_with_fewer_calls_is_no_other_phase(self, scene: Scene) -> None:
        """A step that is open for a second, of which is known only then what it waits for."""
        scene.go_on(0.25, step_ms=20.0, calls_per_step=20)
        scene.go_on(0.75, step_ms=None)
        (opened,) = scene.go_on(0.5, step_ms=None, lost={(Cause.NETWORK, NOBODY): 2.0})

        assert opened.chain.cause is Cause.NETWORK

    def test_job_that_makes_no_more_steps_has_done_its_work(self, scene: Scene) -> None:
        """Or evaluates; nothing is lost."""
        assert scene.go_on(60, step_ms=None) == []

    def test_pause_between_epochs_is_no_fault(self, scene: Scene) -> None:
        """Ten seconds without a step, then as before."""
        scene.go_on(10, step_ms=None)
        scene.go_on(60)

        assert scene.transitions == []

    def test_warm_up_is_no_fault(self) -> None:
        """The first ten seconds are slower, and what comes then is the usual."""
        scene = Scene()
        scene.go_on(10, step_ms=20.0)
        scene.go_on(10)
        (opened,) = scene.go_on(2, step_ms=14.0, lost={DISK: 0.3})

        assert opened.chain.usual_step_ns == pytest.approx(10e6, rel=0.02)

    def test_no_chain_opens_before_the_baseline_is_known(self) -> None:
        """The first seconds have nothing to be compared with."""
        assert Scene().go_on(4, step_ms=20.0, lost={DISK: 0.5}) == []

    def test_what_stays_so_is_the_baseline(self, scene: Scene) -> None:
        """Five minutes slower, and no resource of the host is the reason."""
        scene.go_on(310, step_ms=20.0)
        scene.go_on(60, step_ms=20.0)

        assert changes(scene.transitions) == [(Change.OPENED, Cause.GPU), (Change.RESOLVED, Cause.GPU)]
        assert scene.transitions[-1].chain.end is End.CHANGED

    def test_job_that_was_never_better_opens_a_chain(self) -> None:
        """Starved from the beginning: half of the time, for half a minute; never above medium."""
        scene = Scene()
        (opened,) = scene.go_on(40, lost={(Cause.DATALOADER, NOBODY): 0.5})

        assert (opened.chain.cause, opened.chain.severity) == (Cause.DATALOADER, Severity.MEDIUM)
        assert opened.chain.is_chronic

    def test_job_with_too_few_calls_to_count_is_detected_by_its_steps(self) -> None:
        """A graph launched every second; calls are counted in dozens."""
        scene = Scene()
        (opened,) = scene.go_on(40, step_ms=1000.0, calls_per_step=0, lost={(Cause.DATALOADER, NOBODY): 0.5})

        assert opened.chain.cause is Cause.DATALOADER

    @pytest.mark.parametrize("idle_seconds", [10, 60])
    def test_process_that_makes_no_call_has_nothing_to_do(self, idle_seconds: int) -> None:
        """A notebook that waits for its user loses all time, which is only accounted when its threads are read."""
        scene = Scene(Job(has_rhythm=False))
        scene.go_on(idle_seconds, step_ms=None)

        assert scene.go_on(60, step_ms=None, lost={(Cause.DATALOADER, NOBODY): 1.0}) == []


class TestBaseline:
    """It goes up and down with the job, and faults are judged against what was before them."""

    def test_drift_is_followed_in_silence(self, scene: Scene) -> None:
        """A tenth slower in ten minutes."""
        for minute in range(10):
            for second in range(60):
                scene.go_on(1, step_ms=10.0 + (minute * 60 + second) / 600)

        assert scene.transitions == []

    def test_fault_after_a_drift_is_seen_as_before_it(self, scene: Scene) -> None:
        """A twelfth slower in five minutes, then a disk takes a quarter: the slowdown is that of the disk."""
        for second in range(300):
            scene.go_on(1, step_ms=10.0 + second / 360)
        (opened,) = scene.go_on(3, step_ms=14.4, lost={DISK: 0.25})

        assert opened.chain.cause is Cause.BLOCK_IO
        assert opened.chain.slowdown == pytest.approx(0.33, abs=0.05)

    def test_small_shift_that_lasts_is_the_new_baseline(self, scene: Scene) -> None:
        """A twentieth slower for good: two minutes later a fault of a fifth is a chain of a fifth."""
        scene.go_on(130, step_ms=10.5)
        (opened,) = scene.go_on(4, step_ms=13.1, lost={DISK: 0.2})

        assert (opened.chain.cause, opened.chain.usual_step_ns) == (Cause.BLOCK_IO, 10_500_000)

    def test_other_batch_size_does_not_hide_a_fault(self, scene: Scene) -> None:
        """Twice as many calls in steps of twice the length, with a trace of the disk; then a fault of 29 %."""
        scene.go_on(30, step_ms=20.0, calls_per_step=100, lost={DISK: 0.01})
        (opened,) = scene.go_on(3, step_ms=28.0, calls_per_step=100, lost={DISK: 0.29})

        assert opened.chain.cause is Cause.BLOCK_IO

    def test_earlier_regime_is_no_fault_when_it_comes_back(self, scene: Scene) -> None:
        """Half a minute of shorter steps, and the length of before again."""
        scene.go_on(30)
        scene.go_on(30, step_ms=7.0)
        scene.go_on(30)

        assert scene.transitions == []

    def test_lasting_change_is_reported_once(self) -> None:
        """A job of two minutes becomes a twentieth slower, and a bit."""
        scene = Scene()
        scene.go_on(120)
        scene.go_on(300, step_ms=10.7)

        assert changes(scene.transitions) == [(Change.OPENED, Cause.CHANGED), (Change.RESOLVED, Cause.CHANGED)]


class TestHitches:
    """Pauses that come again and again."""

    def test_pauses_that_cost_a_tenth_are_a_chain(self, scene: Scene) -> None:
        """0.75 s of sleep after every 2 s."""
        for _ in range(6):
            scene.go_on(2)
            scene.go_on(0.75, step_ms=None, lost={SLEEP: 1.0})

        assert [one.chain.cause for one in scene.opened()] == [Cause.OWN_WAIT]

    def test_two_pauses_are_none(self, scene: Scene) -> None:
        """They may be chance."""
        for _ in range(2):
            scene.go_on(2)
            scene.go_on(0.75, step_ms=None, lost={SLEEP: 1.0})
        scene.go_on(60)

        assert scene.transitions == []


class TestStandstill:
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

    def test_it_is_critical_after_a_minute(self, scene: Scene) -> None:
        """A checkpoint takes a while."""
        scene.go_on(70, step_ms=None, standing=Standing(4711, "", ThreadState.LOCK, SECOND))

        assert scene.engine.open_chains()[0].severity is Severity.CRITICAL

    def test_job_that_waits_for_input_has_not_stalled(self, scene: Scene) -> None:
        """A notebook between two cells."""
        assert scene.go_on(60, step_ms=None, standing=Standing(4711, "", ThreadState.POLL, SECOND)) == []


class TestOwn:
    """The job's own code and waits."""

    def test_code_that_computes_between_calls_is_named(self, scene: Scene) -> None:
        """A third of the time on a CPU, outside of calls."""
        (opened,) = scene.go_on(5, step_ms=15.0, computing=0.33)

        assert (opened.chain.cause, opened.chain.effect) == (Cause.OWN_CODE, Effect.GAP)
        assert opened.chain.contribution == pytest.approx(1.0, abs=0.05)

    def test_sleep_in_each_step_is_named(self, scene: Scene) -> None:
        """A third of the time."""
        (opened,) = scene.go_on(5, step_ms=15.0, lost={SLEEP: 0.33})

        assert (opened.chain.cause, opened.chain.effect) == (Cause.OWN_WAIT, Effect.GAP)


class TestLongSteps:
    """A minute each, of a job that usually takes ten seconds."""

    @pytest.fixture
    def slow(self) -> Scene:
        """It has made thirty steps of ten seconds."""
        scene = Scene()
        assert scene.go_on(300, step_ms=10_000.0) == []
        return scene

    def test_cause_of_the_host_is_found_within_two_steps(self, slow: Scene) -> None:
        """The disk takes half of the time."""
        (opened,) = slow.go_on(21, step_ms=20_000.0, lost={DISK: 0.5})

        assert opened.chain.cause is Cause.BLOCK_IO

    def test_it_is_resolved_once(self, slow: Scene) -> None:
        """While it lasts it does not come and go with the steps."""
        slow.go_on(300, step_ms=20_000.0, lost={DISK: 0.5})
        slow.go_on(60, step_ms=10_000.0)

        changes = [change for change, _ in slow.transitions if change is not Change.ESCALATED]
        assert changes == [Change.OPENED, Change.RESOLVED]

    def test_cause_of_the_job_is_reported_after_eight_steps(self, slow: Scene) -> None:
        """Not before."""
        before = slow.go_on(150, step_ms=20_000.0)
        (opened,) = slow.go_on(50, step_ms=20_000.0)

        assert (before, opened.chain.cause) == ([], Cause.GPU)


class TestExtent:
    """From onset to end, with its own severity: what came before and after does not dilute it."""

    def test_it_begins_with_the_fault_and_not_with_the_noise_before(self, scene: Scene) -> None:
        """Two seconds that are a little slower, then three times as slow."""
        scene.go_on(2, step_ms=10.5)
        scene.go_on(1, step_ms=30.0, lost={DISK: 0.67})
        (chain,) = scene.engine.open_chains()

        assert chain.began_ns == 1_022 * SECOND
        assert chain.slowdown == pytest.approx(2.0, abs=0.05)

    def test_its_begin_is_seen_more_clearly_later(self, scene: Scene) -> None:
        """A weak fault is opened with the noise before it; three seconds later its own onset is likelier."""
        scene.go_on(2, step_ms=10.8, lost={DISK: 0.04})
        scene.go_on(4, step_ms=12.5, lost={DISK: 0.2})

        assert scene.engine.open_chains()[0].began_ns == 1_022 * SECOND

    def test_slowdown_is_of_the_time_in_which_it_was_slow(self, scene: Scene) -> None:
        """Five seconds, then calm until it is resolved."""
        scene.go_on(5, step_ms=20.0, lost={DISK: 0.5})
        (resolved,) = scene.go_on(8, step_ms=10.1)

        assert resolved.chain.slowdown == pytest.approx(1.0, abs=0.02)
        assert resolved.chain.lost_share == pytest.approx(0.5, abs=0.02)
        assert resolved.chain.resolved_ns == 1_025 * SECOND


class TestCourse:
    """What becomes of an open chain."""

    def test_it_escalates_once_for_each_level(self, scene: Scene) -> None:
        """A tenth of the time, then more than half of it."""
        scene.go_on(5, step_ms=11.2, lost={DISK: 0.11})
        scene.go_on(10, step_ms=30.0, lost={DISK: 0.67})

        assert [(change, chain.severity) for change, chain in scene.transitions] == [
            (Change.OPENED, Severity.MEDIUM),
            (Change.ESCALATED, Severity.HIGH),
            (Change.ESCALATED, Severity.CRITICAL),
        ]

    def test_it_is_resolved_when_it_was_calm_for_five_seconds(self, scene: Scene) -> None:
        """As of the beginning of the calm; under the same id."""
        scene.go_on(10, step_ms=20.0, lost={DISK: 0.5})
        before = scene.go_on(4.75)
        (resolved,) = scene.go_on(2)

        assert (before, resolved.change, resolved.chain.end) == ([], Change.RESOLVED, End.RECOVERED)
        assert resolved.chain.resolved_ns == 1_030 * SECOND
        assert resolved.chain.id == scene.opened()[0].chain.id

    def test_waves_are_one_episode(self, scene: Scene) -> None:
        """Two seconds of it, three of calm, again and again."""
        for _ in range(10):
            scene.go_on(2, step_ms=20.0, lost={DISK: 0.5})
            scene.go_on(3)

        assert changes(scene.transitions) == [(Change.OPENED, Cause.BLOCK_IO)]

    def test_another_cause_is_another_episode(self, scene: Scene) -> None:
        """The disk has recovered, and the job is as slow as before because it lacks a CPU."""
        scene.go_on(10, step_ms=20.0, lost={DISK: 0.5})
        scene.go_on(10, step_ms=20.0, lost={HOG: 0.5})

        assert changes(scene.transitions) == [
            (Change.OPENED, Cause.BLOCK_IO),
            (Change.RESOLVED, Cause.BLOCK_IO),
            (Change.OPENED, Cause.CPU_CONTENTION),
        ]

    @pytest.mark.parametrize(("before", "cause"), [({}, Cause.GPU), ({HOG: 0.17}, Cause.CPU_CONTENTION)])
    def test_much_worse_for_another_reason_is_a_second_chain(self, scene: Scene, before: Loss, cause: Cause) -> None:
        """A fifth slower, then three times because of the disk: opened at once, with the onset of the disk, beside the first."""
        scene.go_on(5, step_ms=12.0, lost=before)
        scene.go_on(2, step_ms=30.0, lost={**dict.fromkeys(before, 0.07), DISK: 0.6})

        assert changes(scene.transitions)[:2] == [(Change.OPENED, cause), (Change.OPENED, Cause.BLOCK_IO)]
        assert scene.opened()[1].chain.began_ns == 1_025 * SECOND
        assert len(scene.engine.open_chains()) == 2

    def test_chain_below_outlives_the_one_on_top(self, scene: Scene) -> None:
        """The disk recovers, the CPU is still held, and then it is not."""
        scene.go_on(8, step_ms=14.0, lost={HOG: 0.28})
        scene.go_on(8, step_ms=30.0, lost={HOG: 0.13, DISK: 0.53})
        scene.go_on(12, step_ms=14.0, lost={HOG: 0.28})
        assert [chain.cause for chain in scene.engine.open_chains()] == [Cause.CPU_CONTENTION]
        scene.go_on(12)

        assert scene.engine.open_chains() == []
        assert [one.chain.cause for one in scene.opened()] == [Cause.CPU_CONTENTION, Cause.BLOCK_IO]

    def test_chain_on_top_outlives_the_one_below(self, scene: Scene) -> None:
        """The CPU is free again, the disk is as slow as before."""
        scene.go_on(8, step_ms=14.0, lost={HOG: 0.28})
        scene.go_on(8, step_ms=30.0, lost={HOG: 0.13, DISK: 0.53})
        scene.go_on(12, step_ms=26.0, lost={DISK: 0.61})

        assert [chain.cause for chain in scene.engine.open_chains()] == [Cause.BLOCK_IO]
        assert len(scene.opened()) == 2

    def test_host_is_not_convicted_of_what_was_before(self, scene: Scene) -> None:
        """A fifth slower for no reason of the host, and then a disk takes a fifth as well: that is a chain of its own."""
        scene.go_on(10, step_ms=12.0)
        scene.go_on(4, step_ms=15.0, lost={DISK: 0.2})

        assert changes(scene.transitions)[:2] == [(Change.OPENED, Cause.GPU), (Change.OPENED, Cause.BLOCK_IO)]

    def test_much_worse_for_the_same_reason_is_the_same_episode(self, scene: Scene) -> None:
        """It escalates."""
        scene.go_on(5, step_ms=12.0, lost={DISK: 0.17})
        scene.go_on(5, step_ms=30.0, lost={DISK: 0.67})

        assert len(scene.opened()) == 1

    def test_what_is_left_of_it_does_not_keep_it_open(self, scene: Scene) -> None:
        """Three times as slow, then a tenth slower: recovered from the first, and the tenth is a chain of its own."""
        scene.go_on(5, step_ms=30.0, lost={DISK: 0.67})
        scene.go_on(15, step_ms=11.0, lost={DISK: 0.09})

        assert [(change, chain.severity) for change, chain in scene.transitions if change is not Change.ESCALATED] == [
            (Change.OPENED, Severity.CRITICAL),
            (Change.RESOLVED, Severity.CRITICAL),
            (Change.OPENED, Severity.LOW),
        ]

    def test_second_episode_is_a_second_chain(self, scene: Scene) -> None:
        """Against the same usual: what happened in the first has not become part of it."""
        for _ in range(2):
            scene.go_on(20, step_ms=20.0, lost={DISK: 0.5})
            scene.go_on(20)
        first, second = scene.opened()

        assert first.chain.id != second.chain.id
        assert second.chain.usual_step_ns == pytest.approx(10e6, rel=0.02)

    def test_job_that_ends_resolves_its_chain(self, scene: Scene) -> None:
        """And leaves nothing open."""
        scene.go_on(5, step_ms=20.0, lost={DISK: 0.5})
        (resolved,) = scene.engine.end([1], scene.now_ns)

        assert (resolved.change, resolved.chain.end) == (Change.RESOLVED, End.JOB_ENDED)
        assert scene.engine.open_chains() == []

    def test_undecided_waits_for_a_cpu_are_waited_for(self, scene: Scene) -> None:
        """Lost, with no culprit yet: no verdict is better than a wrong one."""
        scene.jobs[0].undecided_ns = SECOND // 2
        before = scene.go_on(1, step_ms=20.0)
        is_undecided = scene.engine.wanted.is_urgent
        scene.jobs[0].undecided_ns = 0
        (opened,) = scene.go_on(0.25, step_ms=20.0, lost={HOG: 2.5})

        assert (before, is_undecided, opened.chain.cause) == ([], True, Cause.CPU_CONTENTION)


class TestRanks:
    """Two ranks in one communicator."""

    def test_rank_that_comes_late_and_the_one_that_waits(self) -> None:
        """Both are half as fast; rank 1 sleeps for a reason of its own, rank 0 waits for it."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        late = {"step_ms": 20.0, "lost": {OWN_SLEEP: 0.5}, "late": 0.5}
        scene.go_on(3, {"step_ms": 20.0}, late)

        assert sorted((chain.process, chain.cause, chain.peer) for _, chain in scene.transitions) == [
            (1, Cause.PEER_RANK, "1"),
            (2, Cause.SLOW_RANK, ""),
        ]
        assert {chain.process: chain.severity for _, chain in scene.transitions}[1] is Severity.MEDIUM

    def test_rank_that_another_one_waits_for_is_judged_although_its_own_steps_vary(self) -> None:
        """By four percent every other second: of itself its nine percent would be news only later."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        for _ in range(12):
            for step_ms in (9.6, 10.0, 10.4):
                scene.go_on(2, {"step_ms": 10.0}, {"step_ms": step_ms})
        scene.go_on(4.75, {"step_ms": 11.0}, {"step_ms": 11.0, "late": 0.09})

        assert [(chain.process, chain.cause) for _, chain in scene.opened()] == [
            (1, Cause.PEER_RANK),
            (2, Cause.SLOW_RANK),
        ]

    def test_late_rank_with_a_cause_has_that_cause(self) -> None:
        """It waits for its disk."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.go_on(3, {"step_ms": 20.0}, {"step_ms": 20.0, "lost": {DISK: 0.5}, "late": 0.5})

        assert {chain.process: chain.cause for _, chain in scene.transitions} == {1: Cause.PEER_RANK, 2: Cause.BLOCK_IO}

    def test_rank_that_is_slow_together_with_another_waits_for_it(self) -> None:
        """Work that is queued on the GPU hides how late rank 1 arrives; but its disk is known to be slow."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.go_on(5, {"step_ms": 20.0}, {"step_ms": 20.0, "lost": {DISK: 0.5}})

        assert sorted((chain.process, chain.cause, chain.peer) for _, chain in scene.opened()) == [
            (1, Cause.PEER_RANK, "1"),
            (2, Cause.BLOCK_IO, ""),
        ]

    def test_rank_that_never_arrives_is_named(self) -> None:
        """Rank 0 has entered one more collective, and neither goes on: one chain, of rank 1."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        scene.go_on(3, step_ms=None)

        ((change, chain),) = scene.transitions
        assert (change, chain.process, chain.cause, chain.peer) == (Change.OPENED, 2, Cause.NCCL_HANG, "1")
        assert chain.severity is Severity.CRITICAL

    def test_rank_that_is_stuck_in_a_lock_for_good_hangs(self) -> None:
        """What holds it up is booked as lost; that the others wait for it is the news, and the only one."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        scene.go_on(10, {"step_ms": None}, {"step_ms": None, "lost": {(Cause.LOCK, NOBODY): 1.0}})

        assert [(chain.process, chain.cause) for _, chain in scene.transitions] == [(2, Cause.NCCL_HANG)]

    def test_rank_that_waits_for_a_hanging_one_has_not_stalled(self) -> None:
        """Rank 0 stands in a call for half a minute: the chain of rank 1 is the only one."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        standing = Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 5 * SECOND)
        scene.go_on(30, step_ms=None, standing=standing)

        assert [(chain.process, chain.cause) for _, chain in scene.transitions] == [(2, Cause.NCCL_HANG)]

    def test_rank_that_waits_for_another_node_has_stalled(self) -> None:
        """Both ranks of this node have entered the same collectives."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        standing = Standing(4711, "cudaStreamSynchronize", ThreadState.ON_CPU, 5 * SECOND)
        scene.go_on(6, step_ms=None, standing=standing)

        assert [(chain.process, chain.cause) for _, chain in scene.transitions] == [
            (1, Cause.STALLED),
            (2, Cause.STALLED),
        ]

    def test_rank_that_comes_after_all_ends_the_hang(self) -> None:
        """Everything goes on."""
        scene = Scene(Job(1), Job(2), has_ranks=True)
        scene.go_on(20)
        scene.jobs[0].arrived += 1
        scene.go_on(5, step_ms=None)
        scene.jobs[1].arrived += 1
        scene.go_on(10)

        assert changes(scene.transitions) == [(Change.OPENED, Cause.NCCL_HANG), (Change.RESOLVED, Cause.NCCL_HANG)]


class TestMemory:
    """An allocation failed."""

    def test_without_a_later_success_it_is_out_of_memory(self, scene: Scene) -> None:
        """After five seconds."""
        scene.jobs[0].allocations = Allocations(failed=1)
        before = scene.go_on(5)
        (opened,) = scene.go_on(0.25)

        assert (before, opened.chain.cause, opened.chain.severity) == ([], Cause.CUDA_OOM, Severity.CRITICAL)

    def test_retry_that_works_is_none(self, scene: Scene) -> None:
        """Two seconds later."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(2)
        scene.jobs[0].allocations = Allocations(failed=1, allocated_bytes=4096)

        assert scene.go_on(20) == []

    def test_job_that_dies_of_it_has_a_chain(self, scene: Scene) -> None:
        """At its end, opened and resolved."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(1)

        assert changes(scene.engine.end([1], scene.now_ns)) == [
            (Change.OPENED, Cause.CUDA_OOM),
            (Change.RESOLVED, Cause.CUDA_OOM),
        ]

    def test_later_success_resolves_it(self, scene: Scene) -> None:
        """It went on for ten seconds without one."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(10)
        scene.jobs[0].allocations = Allocations(failed=1, allocated_bytes=4096)
        (resolved,) = scene.go_on(0.25)

        assert (resolved.change, resolved.chain.end) == (Change.RESOLVED, End.RECOVERED)


class TestTime:
    """Clocks and loads that are not as they should be."""

    def test_two_ticks_at_one_moment_are_harmless(self, scene: Scene) -> None:
        """No time has passed."""
        scene.now_ns -= SECOND // 4
        scene.go_on(0.25)

        assert scene.go_on(10) == []

    def test_transitions_come_in_the_order_of_time(self, scene: Scene) -> None:
        """Whatever happens."""
        for step_ms, share in ((20.0, 0.5), (10.0, 0.0), (12.0, 0.17), (10.0, 0.0)):
            scene.go_on(15, step_ms=step_ms, lost={DISK: share})
        moments = [chain.resolved_ns or chain.updated_ns for _, chain in scene.transitions]

        assert len(moments) >= 4
        assert all(before <= after for before, after in pairwise(moments))


class TestCrash:
    """A process has ended, and how is known."""

    def test_crash_is_a_chain_that_is_over_at_once(self, scene: Scene) -> None:
        """Critical, with how it ended."""
        scene.go_on(1)
        opened, resolved = scene.engine.end([1], scene.now_ns, {1: Ending(signal.SIGSEGV, 0, at_ns=scene.now_ns)})

        assert (opened.change, opened.chain.cause, opened.chain.severity) == (
            Change.OPENED,
            Cause.CRASH,
            Severity.CRITICAL,
        )
        assert (resolved.change, resolved.chain.end) == (Change.RESOLVED, End.JOB_ENDED)
        assert opened.chain.detail == "ended by SIGSEGV"
        assert scene.engine.open_chains() == []

    def test_want_of_the_host_s_memory_is_a_cause_of_its_own(self, scene: Scene) -> None:
        """The kernel has ended it."""
        scene.go_on(1)
        opened, _ = scene.engine.end([1], scene.now_ns, {1: Ending(signal.SIGKILL, 0, is_victim=True)})

        assert opened.chain.cause is Cause.OOM_KILLED

    def test_wished_end_is_silent(self, scene: Scene) -> None:
        """With exit code 0, or ended on request."""
        scene.go_on(1)

        assert scene.engine.end([1], scene.now_ns, {1: Ending(0, 0)}) == []

    def test_process_that_ended_out_of_gpu_memory_has_that_chain_alone(self, scene: Scene) -> None:
        """Its exit code says no more."""
        scene.jobs[0].allocations = Allocations(failed=1)
        scene.go_on(1)
        transitions = scene.engine.end([1], scene.now_ns, {1: Ending(0, 1)})

        assert [(one.change, one.chain.cause) for one in transitions] == [
            (Change.OPENED, Cause.CUDA_OOM),
            (Change.RESOLVED, Cause.CUDA_OOM),
        ]
