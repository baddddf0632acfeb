"""cold_start: what the first steps cost in calls that are dear only the first time."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change, Effect, Severity
from exporter.chains.cold_start import Cold, ColdStart
from exporter.chains.spending import Spending
from tests.unit.chains.job import Scene

SECOND = 1_000_000_000


class TestColdStart:
    """Reported once, when steps are steady."""

    def test_calls_that_were_dear_at_first_are_a_cold_start(self) -> None:
        """Steps of 10 ms with 1 ms of launches; the first two seconds were nothing but launches and allocations."""
        scene = Scene()
        scene.go_on(2, step_ms=1_000.0, in_calls={Effect.LAUNCH: 0.7, Effect.ALLOC: 0.25})
        scene.go_on(15, in_calls={Effect.LAUNCH: 0.1})

        opened, resolved = scene.transitions
        assert (opened.change, opened.chain.cause, opened.chain.effect) == (
            Change.OPENED,
            Cause.COLD_START,
            Effect.LAUNCH,
        )
        assert (opened.chain.severity, resolved.change) == (Severity.LOW, Change.RESOLVED)
        assert resolved.chain.lost_ns == pytest.approx(1.9 * SECOND, rel=0.02)

    def test_steps_that_compute_on_the_host_at_first_are_none(self) -> None:
        """A warm-up without a call."""
        scene = Scene()
        scene.go_on(10, step_ms=40.0)
        scene.go_on(20)

        assert scene.transitions == []

    def test_it_is_what_is_beyond_the_cost_of_steady_steps(self) -> None:
        """4 s in launches within the first 100 steps, of which 10 ms each are usual: 3 s."""
        start = ColdStart(7 * SECOND)
        warm, steady = Spending({Effect.LAUNCH: 4 * SECOND}), Spending({Effect.LAUNCH: 9 * SECOND})

        assert start.update(17 * SECOND, 100, lambda: warm, has_rhythm=True) is None
        assert start.update(21 * SECOND, 600, lambda: steady, has_rhythm=True) == Cold(
            7 * SECOND, 17 * SECOND, {Effect.LAUNCH: 3 * SECOND, Effect.ALLOC: 0, Effect.GRAPH: 0}
        )
        assert start.update(25 * SECOND, 900, lambda: steady, has_rhythm=True) is None

    def test_less_than_a_second_is_not_worth_a_word(self) -> None:
        """0.9 s. It is known all the same."""
        scene = Scene()
        scene.go_on(1, step_ms=1_000.0, in_calls={Effect.ALLOC: 0.9})
        scene.go_on(15)

        cold = scene.engine.cold_start(1)
        assert scene.transitions == []
        assert cold is not None
        assert cold.cold_ns == {Effect.LAUNCH: 0, Effect.ALLOC: 9 * SECOND // 10, Effect.GRAPH: 0}

    def test_detail_is_in_seconds(self) -> None:
        """The largest part first; what is next to nothing is left out."""
        cold = Cold(0, 9 * SECOND, {Effect.LAUNCH: SECOND, Effect.ALLOC: 2 * SECOND, Effect.GRAPH: SECOND // 100})

        assert cold.lost_ns == 3_010_000_000
        assert cold.detail == "3.0 s of the first 9 s beyond steady steps: 2.0 s in allocations, 1.0 s in launches"
