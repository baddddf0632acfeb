"""episode: an open chain, second by second: its extent, its severity, its end, and others beside it."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains import verdict
from exporter.chains.chain import Change, End, Severity
from tests.support.chains import a_chain
from tests.unit.chains.job import DISK, HOG, SECOND, Loss, Scene, changes


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


class TestNow:
    """What holds now, apart from the worst time. A program that holds the CPU, then a stronger one, then the first one again."""

    COURSE = ((0.3, "stress-ng"), (0.6, "backup"), (0.35, "stress-ng"))

    @pytest.mark.parametrize("moments", [1, 2, 3])
    def test_ten_seconds_after_each_change_it_is_what_the_job_loses(self, scene: Scene, moments: int) -> None:
        for lost, culprit in self.COURSE[:moments]:
            scene.go_on(14, step_ms=10.0 / (1 - lost), lost={(Cause.CPU_CONTENTION, culprit): lost})
        (chain,) = scene.engine.open_chains()

        assert chain.present.lost_share == pytest.approx(lost, abs=0.02)
        assert chain.present.slowdown == pytest.approx(1 / (1 - lost) - 1, abs=0.05)
        assert chain.culprit == culprit

    def test_worst_time_is_the_largest_up_to_now_with_its_culprit(self, scene: Scene) -> None:
        """It was resolved as what it was at its worst."""
        for lost, culprit in self.COURSE:
            scene.go_on(14, step_ms=10.0 / (1 - lost), lost={(Cause.CPU_CONTENTION, culprit): lost})
        (chain,) = scene.engine.open_chains()
        (resolved,) = scene.go_on(20)

        for one in (chain, resolved.chain):
            assert one.lost_share == pytest.approx(0.6, abs=0.02)
            assert one.culprits[0][0] == "backup"
        assert resolved.chain.now is None

    def test_now_is_never_more_than_the_worst(self, scene: Scene) -> None:
        """Nor does the worst become less once it is ten seconds old."""
        worst = 0.0
        for lost in (0.12, 0.5, 0.3, 0.55, 0.2):
            for _ in range(60):
                scene.go_on(0.25, step_ms=10.0 / (1 - lost), lost={DISK: lost})
                for chain in scene.engine.open_chains():
                    assert chain.present.lost_share <= chain.lost_share
                    if chain.updated_ns - chain.began_ns > 10 * SECOND:
                        assert chain.lost_share >= worst
                        worst = chain.lost_share

    def test_what_another_cause_takes_is_not_booked_on_the_jobs_own(self, scene: Scene) -> None:
        """A fifth more for code of its own, then two thirds for a program on its CPU."""
        scene.go_on(8, step_ms=12.5, computing=0.2)
        (own,) = scene.engine.open_chains()
        assert own.cause is Cause.OWN_CODE
        for _ in range(40):
            scene.go_on(0.25, step_ms=36.0, computing=0.07, lost={HOG: 0.65})
            for chain in scene.engine.open_chains():
                if chain.cause is Cause.OWN_CODE:
                    assert chain.present.lost_share <= chain.lost_share < 0.25

    def test_it_falls_while_the_chain_waits_for_its_end(self, scene: Scene) -> None:
        """Four seconds of ten."""
        scene.go_on(12, step_ms=20.0, lost={DISK: 0.5})
        scene.go_on(4)
        (chain,) = scene.engine.open_chains()

        assert chain.present.lost_share == pytest.approx(0.3, abs=0.03)
        assert chain.lost_share == pytest.approx(0.5, abs=0.02)

    def test_standstill_is_all_of_the_time(self) -> None:
        """Its chain has one figure."""
        chain = a_chain(cause=Cause.STALLED, lost_share=1.0)

        assert chain.present.lost_share == 1.0

    def test_rank_that_is_waited_for_is_named_as_one(self) -> None:
        """A bare number would be read as a program."""
        assert a_chain(cause=Cause.PEER_RANK, peer="3", culprits=()).culprit == "rank 3"


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

    def test_two_bad_seconds_do_not_make_it_worse(self, scene: Scene) -> None:
        """A tenth of the time for long, and for two seconds two thirds: a tenth and a bit in all."""
        scene.go_on(20, step_ms=11.4, lost={DISK: 0.12})
        scene.go_on(2, step_ms=30.0, lost={DISK: 0.67})
        scene.go_on(10, step_ms=11.4, lost={DISK: 0.12})

        assert [chain.severity for _, chain in scene.transitions] == [Severity.MEDIUM]

    @pytest.mark.parametrize("course", [(0.6,), (0.12, 0.6), (0.3, 0.12, 0.3), (0.12, 0.3, 0.6, 0.2), (0.6, 0.12)])
    def test_severity_is_that_of_the_lost_share_beside_it(self, scene: Scene, course: tuple[float, ...]) -> None:
        """Whatever the course: each transition and each tick."""
        for lost in course:
            for _ in range(40):
                scene.go_on(0.25, step_ms=10.0 / (1 - lost), lost={DISK: lost})
                for chain in scene.engine.open_chains():
                    assert chain.severity is verdict.severity_of(chain.cause, chain.lost_share)
        for _, chain in scene.transitions:
            assert chain.severity is verdict.severity_of(chain.cause, chain.lost_share)

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
