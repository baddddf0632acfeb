"""What slows a job down that is no resource of the host: its own calls, its copies, its captures, or the GPU."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, Severity
from exporter.chains.gpu import DeviceSide, Neighbour
from tests.unit.chains.job import DISK, Scene

IN_SYNC = {Effect.SYNC: 0.5}


@pytest.fixture
def scene() -> Scene:
    """A job that was watched for twenty quiet seconds, a tenth of them in synchronising calls."""
    quiet = Scene()
    assert quiet.go_on(20, in_calls={Effect.SYNC: 0.1}) == []
    return quiet


class TestOwnDoing:
    """Time that the job spends beside its kernels."""

    def test_copies_of_pageable_memory_are_a_cause_of_their_own(self, scene: Scene) -> None:
        """Half of the time in copies, and their bytes explain it."""
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls={Effect.MEMCPY: 0.5}, pageable=0.48)

        assert (opened.chain.cause, opened.chain.effect) == (Cause.PAGEABLE_COPY, Effect.MEMCPY)
        assert opened.chain.contribution == pytest.approx(0.96, abs=0.05)

    def test_copy_that_only_waits_for_the_gpu_is_no_such_copy(self, scene: Scene) -> None:
        """As many bytes as before: the call returns later because the kernels before it take longer."""
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls={Effect.MEMCPY: 0.5})

        assert (opened.chain.cause, opened.chain.effect) == (Cause.GPU, Effect.MEMCPY)

    def test_full_link_is_the_cause_where_copies_are_pinned(self, scene: Scene) -> None:
        """The wait is in a synchronising call, and the link was busy for four fifths of the time."""
        (opened,) = scene.go_on(5, step_ms=19.0, in_calls=IN_SYNC, link=0.8)

        assert (opened.chain.cause, opened.chain.effect) == (Cause.PCIE, Effect.SYNC)

    def test_link_that_is_half_busy_is_not_the_reason(self, scene: Scene) -> None:
        """There was room for more."""
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls=IN_SYNC, link=0.5)

        assert opened.chain.cause is Cause.GPU

    def test_code_that_is_added_to_steps_is_a_cause_though_it_makes_calls(self, scene: Scene) -> None:
        """A sixth more of them, and most of the time between calls."""
        (opened,) = scene.go_on(5, step_ms=20.0, calls_per_step=60, computing=0.48)

        assert opened.chain.cause is Cause.OWN_CODE

    def test_steps_of_half_as_many_calls_are_another_phase(self, scene: Scene) -> None:
        """An evaluation computes its figures between calls."""
        assert scene.go_on(5, step_ms=20.0, calls_per_step=25, computing=0.48) == []

    def test_captures_in_every_step_are_a_cause(self, scene: Scene) -> None:
        """They make a step of more calls than before, which is else taken for another phase of the job."""
        (opened,) = scene.go_on(
            5, step_ms=20.0, calls_per_step=100, in_calls={Effect.GRAPH: 0.2, Effect.LAUNCH: 0.2}, capture=0.45
        )

        assert (opened.chain.cause, opened.chain.effect) == (Cause.GRAPH_RECAPTURE, Effect.GRAPH)

    def test_allocations_of_many_calls_are_churn_and_no_phase(self, scene: Scene) -> None:
        """Twice as many calls in a step."""
        (opened,) = scene.go_on(5, step_ms=20.0, calls_per_step=100, in_calls={Effect.ALLOC: 0.5})

        assert opened.chain.cause is Cause.ALLOCATION_CHURN

    def test_measured_cause_comes_before_an_inferred_one(self, scene: Scene) -> None:
        """After two and a half seconds; that it is nothing of all this, after three."""
        opened = scene.go_on(2.75, step_ms=20.0, calls_per_step=100, in_calls={Effect.GRAPH: 0.5}, capture=0.5)
        other = Scene()
        other.go_on(20)

        assert [one.chain.cause for one in opened] == [Cause.GRAPH_RECAPTURE]
        assert other.go_on(2.75, step_ms=20.0) == []

    def test_episode_before_is_no_part_of_what_is_usual(self, scene: Scene) -> None:
        """Ten seconds of it, ten of quiet, and again: as much of it is the job's own doing as the first time."""
        told = []
        for _ in range(3):
            told += scene.go_on(10, step_ms=20.0, calls_per_step=100, in_calls={Effect.GRAPH: 0.5}, capture=0.5)
            told += scene.go_on(10)
        first, *_, last = (one.chain for one in told if one.change is Change.OPENED)

        assert first.contribution == pytest.approx(1.0, abs=0.05)
        assert last.contribution == pytest.approx(first.contribution, abs=0.06)

    def test_phase_before_is_no_part_of_what_is_usual(self, scene: Scene) -> None:
        """Twenty seconds of captures that make no step longer, then a phase without, in which they come as a fault."""
        scene.go_on(20, in_calls={Effect.GRAPH: 0.5}, capture=0.5)
        assert scene.go_on(15, step_ms=12.0, calls_per_step=100) == []
        (opened,) = scene.go_on(5, step_ms=24.0, calls_per_step=200, in_calls={Effect.GRAPH: 0.5}, capture=0.5)

        assert opened.chain.cause is Cause.GRAPH_RECAPTURE
        assert opened.chain.contribution == pytest.approx(1.0, abs=0.06)

    def test_more_kernels_in_a_step_are_another_phase_still(self, scene: Scene) -> None:
        """Nothing but launches and waits has grown."""
        assert scene.go_on(30, step_ms=20.0, calls_per_step=100, in_calls={Effect.LAUNCH: 0.2, Effect.SYNC: 0.3}) == []

    def test_it_is_over_when_steps_are_as_fast_as_before(self, scene: Scene) -> None:
        """Five calm seconds."""
        scene.go_on(5, step_ms=20.0, in_calls={Effect.MEMCPY: 0.5}, pageable=0.48)
        (resolved,) = scene.go_on(8, in_calls={Effect.SYNC: 0.1})

        assert (resolved.change, resolved.chain.cause) == (Change.RESOLVED, Cause.PAGEABLE_COPY)


class TestDevice:
    """The GPU itself."""

    def test_gpu_that_throttles_is_the_reason(self, scene: Scene) -> None:
        """Not at all before, and for most of the time now; what is not accounted for is never critical."""
        scene.jobs[0].device_side = DeviceSide(0.9, 0.0, "power")
        (opened,) = scene.go_on(5, step_ms=40.0, in_calls={Effect.SYNC: 0.75})

        assert (opened.chain.cause, opened.chain.severity) == (Cause.GPU_THROTTLED, Severity.HIGH)
        assert opened.chain.detail == "the GPU's clocks were held down by power for 90 % of the time, 0 % before"

    def test_gpu_that_always_throttles_is_not(self, scene: Scene) -> None:
        """At full load many do."""
        scene.jobs[0].device_side = DeviceSide(0.95, 0.9, "power")
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls=IN_SYNC)

        assert opened.chain.cause is Cause.GPU

    def test_neighbour_that_has_come_is_the_culprit(self, scene: Scene) -> None:
        """It launched nothing before; the other one was there all the time."""
        scene.jobs[0].device_side = DeviceSide(
            neighbours=(Neighbour("serve", 900.0, 0.0), Neighbour("old", 50.0, 48.0))
        )
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls=IN_SYNC)

        assert opened.chain.cause is Cause.GPU_CONTENTION
        assert opened.chain.culprits == (("serve", 1.0),)

    def test_job_that_waits_for_allocations_does_not_wait_for_the_gpu(self, scene: Scene) -> None:
        """The GPU throttles at the same time."""
        scene.jobs[0].device_side = DeviceSide(0.9, 0.0, "thermal")
        (opened,) = scene.go_on(5, step_ms=20.0, in_calls={Effect.ALLOC: 0.5})

        assert opened.chain.cause is Cause.ALLOCATION_CHURN

    def test_loss_of_the_host_that_is_known_later_is_the_reason_after_all(self, scene: Scene) -> None:
        """The same chain, without the figures of the GPU."""
        scene.jobs[0].device_side = DeviceSide(0.9, 0.0, "power")
        scene.go_on(4, step_ms=20.0, in_calls=IN_SYNC)
        scene.go_on(0.25, step_ms=20.0, lost={DISK: 10.0})
        scene.go_on(2, step_ms=20.0)

        assert [(change, chain.cause, chain.detail != "") for change, chain in scene.transitions] == [
            (Change.OPENED, Cause.GPU_THROTTLED, True),
            (Change.ESCALATED, Cause.BLOCK_IO, False),
        ]
