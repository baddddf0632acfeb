"""balance: what a job loses by the accounting, against what its steps take longer."""

from __future__ import annotations

import pytest

from exporter.chains.balance import Balance, Surplus
from exporter.chains.regime import Regime
from tests.unit.chains.job import DISK, SECOND, Scene
from tests.unit.chains.states import a_regime, a_span


def regime(lost: float = 0.0) -> Regime:
    """Steps of 10 ms for ten seconds. lost: share of the time that such steps lose."""
    return a_regime(*[10.0] * 10, lost=lost)


def seconds(balance: Balance, count: int, usual: Regime, *, lost: float, late: float) -> None:
    """Seconds in which so much is charged, and by which steps take so much longer, as shares of them."""
    for _ in range(count):
        balance.add(a_span(1, late_ns=late * SECOND, lost_ns={DISK: round(lost * SECOND)}), usual)


@pytest.fixture
def balance() -> Balance:
    """Nothing compared yet."""
    return Balance()


def test_lost_time_that_makes_steps_longer_is_no_error(balance: Balance) -> None:
    """A fifth of the time, for ten seconds."""
    seconds(balance, 10, regime(), lost=0.2, late=0.2)

    assert balance.surplus.share == 0.0


def test_lost_time_beyond_that_is_an_error(balance: Balance) -> None:
    """0.3 are charged where steps take 0.2 longer."""
    seconds(balance, 10, regime(), lost=0.3, late=0.2)

    assert balance.surplus.share == pytest.approx(0.1)


def test_slowness_without_lost_time_is_no_error(balance: Balance) -> None:
    """The GPU may be slow."""
    seconds(balance, 10, regime(), lost=0.0, late=0.5)

    assert balance.surplus.share == 0.0


def test_usual_loss_is_part_of_a_usual_step(balance: Balance) -> None:
    """Steps that lose 0.1 and are no longer for it."""
    seconds(balance, 10, regime(0.1), lost=0.1, late=0.0)

    assert balance.surplus.share == 0.0


def test_loss_that_is_charged_late_is_no_error(balance: Balance) -> None:
    """Five slow seconds, charged in the five after them."""
    seconds(balance, 5, regime(), lost=0.0, late=0.4)
    seconds(balance, 5, regime(), lost=0.4, late=0.0)

    assert balance.surplus.share == 0.0


def test_job_without_steps_is_not_compared(balance: Balance) -> None:
    """There is nothing to compare with."""
    seconds(balance, 20, Regime(), lost=0.3, late=0.0)

    assert balance.surplus == Surplus()


class TestOfAllProcesses:
    """The figure of the engine."""

    def test_charged_beyond_the_slowdown_is_the_error_of_the_accounting(self, scene: Scene) -> None:
        """0.1 of the time too much, for 35 of the 50 seconds that were compared."""
        scene.go_on(40, step_ms=12.5, lost={DISK: 0.3})

        assert scene.engine.imbalance == pytest.approx(0.07, abs=0.005)

    def test_process_that_has_ended_counts_on(self, scene: Scene) -> None:
        """It is of all time since the start."""
        scene.go_on(40, step_ms=12.5, lost={DISK: 0.3})
        before = scene.engine.imbalance
        scene.engine.end([1], 2_000 * SECOND)

        assert scene.engine.imbalance == before > 0
