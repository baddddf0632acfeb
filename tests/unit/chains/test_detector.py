"""detector: slow steps of one job, second by second: whether a chain opens, and why."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.accounting.culprits import NO_CULPRIT
from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, End, Severity
from tests.unit.chains.job import DISK, HOG, SECOND, SLEEP, Job, Scene, changes


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

    @pytest.mark.parametrize(
        "added",
        [
            {"computing": 0.4},
            {"in_calls": {Effect.ALLOC: 0.4}},
            {"in_calls": {Effect.MEMCPY: 0.4}, "pageable": 0.4},
            {"capture": 0.4},
            {"in_calls": {Effect.SYNC: 0.4}},
        ],
    )
    def test_chain_of_the_job_has_the_time_by_which_steps_are_longer(self, scene: Scene, added: dict[str, Any]) -> None:
        """Two fifths of 10 s."""
        scene.go_on(10, step_ms=10.0 / 0.6, **added)
        scene.go_on(10)
        over = scene.transitions[-1]

        assert over.change is Change.RESOLVED
        assert over.chain.lost_ns == pytest.approx(4 * SECOND, rel=0.03)

    def test_what_is_lost_in_waits_for_the_gpu_is_of_effect_sync(self, scene: Scene) -> None:
        """The call that waits comes back late."""
        (opened,) = scene.go_on(2, step_ms=20.0, lost={HOG: 0.5}, exposed=0.5)

        assert opened.chain.effect is Effect.SYNC

    def test_half_a_second_without_a_step_opens_a_chain(self, scene: Scene) -> None:
        """A signal stopped the job; that is booked when it goes on."""
        scene.go_on(0.5, step_ms=None)
        (opened,) = scene.go_on(0.25, lost={(Cause.PAUSED, NO_CULPRIT): 2.0})

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

    def test_own_wait_of_a_job_without_a_rhythm_opens_a_chain(self) -> None:
        """Its batches differ, so that no step is known; a fifth of the time is spent asleep since three seconds."""
        scene = Scene(Job(has_rhythm=False))
        scene.go_on(20)
        before = scene.go_on(2.75, lost={SLEEP: 0.2})
        (opened,) = scene.go_on(1, lost={SLEEP: 0.2})

        assert (before, opened.chain.cause, opened.chain.slowdown) == ([], Cause.OWN_WAIT, None)
        assert opened.chain.lost_share == pytest.approx(0.2, abs=0.02)

    def test_user_of_a_job_without_a_rhythm_who_thinks_opens_none(self) -> None:
        """A notebook: it makes no call while it waits, or waits only now and then."""
        scene = Scene(Job(has_rhythm=False))
        scene.go_on(20)

        assert scene.go_on(5, step_ms=None, lost={SLEEP: 1.0}) + scene.go_on(10) == []

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

    @pytest.mark.parametrize(("batch_bytes", "causes"), [(1_600, []), (1_400, [Cause.GPU])])
    def test_steps_with_larger_batches_are_another_phase(self, batch_bytes: int, causes: list[Cause]) -> None:
        """Twice as long, with at least half as much data again: sizes that differ from step to step show it in no other way."""
        scene = Scene()
        scene.go_on(20, batch_bytes=1_000)
        opened = scene.go_on(20, step_ms=20.0, batch_bytes=batch_bytes)

        assert [transition.chain.cause for transition in opened] == causes

    def test_host_with_several_small_causes_is_the_reason(self, scene: Scene) -> None:
        """Half of the time is lost: 0.3 to a disk, 0.2 to a hog, 0.2 to a socket. The largest, after three seconds."""
        lost = {DISK: 0.15, HOG: 0.1, (Cause.NETWORK, NO_CULPRIT): 0.1}
        before = scene.go_on(2.75, step_ms=20.0, lost=lost)
        (opened,) = scene.go_on(1, step_ms=20.0, lost=lost)

        assert (before, opened.chain.cause) == ([], Cause.BLOCK_IO)
        assert opened.chain.contribution == pytest.approx(0.3, abs=0.02)

    def test_host_with_less_than_half_in_small_causes_is_not_the_reason(self, scene: Scene) -> None:
        """0.15 each for three of them."""
        (opened,) = scene.go_on(5, step_ms=20.0, lost={DISK: 0.075, HOG: 0.075, (Cause.NETWORK, NO_CULPRIT): 0.075})

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

    def test_more_calls_with_the_same_kernels_and_data_are_no_other_phase(self) -> None:
        """A thread that polls asks twice as often in steps that take twice as long."""
        scene = Scene()
        scene.go_on(20, batch_bytes=1_000)
        (opened,) = scene.go_on(20, step_ms=20.0, calls_per_step=100, batch_bytes=1_000)

        assert opened.chain.cause is Cause.GPU

    def test_pause_that_begins_with_fewer_calls_is_no_other_phase(self, scene: Scene) -> None:
        """A step that is open for a second, of which is known only then what it waits for."""
        scene.go_on(0.25, step_ms=20.0, calls_per_step=20)
        scene.go_on(0.75, step_ms=None)
        (opened,) = scene.go_on(0.5, step_ms=None, lost={(Cause.NETWORK, NO_CULPRIT): 2.0})

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
        (opened,) = scene.go_on(40, lost={(Cause.DATALOADER, NO_CULPRIT): 0.5})

        assert (opened.chain.cause, opened.chain.severity) == (Cause.DATALOADER, Severity.MEDIUM)
        assert opened.chain.is_chronic

    def test_job_with_too_few_calls_to_count_is_detected_by_its_steps(self) -> None:
        """A graph launched every second; calls are counted in dozens."""
        scene = Scene()
        (opened,) = scene.go_on(40, step_ms=1000.0, calls_per_step=0, lost={(Cause.DATALOADER, NO_CULPRIT): 0.5})

        assert opened.chain.cause is Cause.DATALOADER

    @pytest.mark.parametrize("idle_seconds", [10, 60])
    def test_process_that_makes_no_call_has_nothing_to_do(self, idle_seconds: int) -> None:
        """A notebook that waits for its user loses all time, which is only accounted when its threads are read."""
        scene = Scene(Job(has_rhythm=False))
        scene.go_on(idle_seconds, step_ms=None)

        assert scene.go_on(60, step_ms=None, lost={(Cause.DATALOADER, NO_CULPRIT): 1.0}) == []


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


class TestOwn:
    """The job's own code and waits."""

    def test_code_that_computes_between_calls_is_named(self, scene: Scene) -> None:
        """A third of the time on a CPU, outside of calls."""
        (opened,) = scene.go_on(5, step_ms=15.0, computing=0.33)

        assert (opened.chain.cause, opened.chain.effect) == (Cause.OWN_CODE, Effect.GAP)
        assert opened.chain.contribution == pytest.approx(1.0, abs=0.05)

    @pytest.mark.parametrize("step_ms", [12.0, 12.1, 12.2])
    def test_it_is_named_though_the_alarm_comes_late(self, step_ms: float) -> None:
        """Seconds with steps of 10 or 11.2 ms take turns, and an alarm takes a while. What is spent until then is measured."""
        scene = Scene()
        for second in range(30):
            scene.go_on(1, step_ms=11.2 if second % 2 else 10.0)
        (opened,) = scene.go_on(10, step_ms=step_ms, computing=0.14)

        assert opened.chain.cause is Cause.OWN_CODE

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
