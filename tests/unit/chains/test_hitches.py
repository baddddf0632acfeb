"""hitches: short losses that come again and again."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.hitches import Hitches
from tests.unit.chains.job import SECOND, SLEEP, Scene
from tests.unit.chains.states import a_state


def hitches(*spans: tuple[float, float]) -> Hitches:
    """(began, ended) of each, in seconds."""
    found = Hitches()
    for began, ended in spans:
        found.add(a_state(began), round(ended * SECOND))
    return found


class TestHitches:
    @pytest.mark.parametrize(("count", "since"), [(2, None), (3, 100), (7, 100)])
    def test_three_belong_together(self, count: int, since: int | None) -> None:
        """Since the onset of the first."""
        found = hitches(*((100 + 10 * number, 101 + 10 * number) for number in range(count)))
        first = found.since((100 + 10 * count) * SECOND)

        assert (first.now_ns // SECOND if first else None) == since

    def test_more_than_half_a_minute_between_two_starts_over(self) -> None:
        """After two of them, a pause of 31 s."""
        found = hitches((100, 101), (110, 111), (142, 143), (150, 151))
        assert found.since(152 * SECOND) is None
        found.add(a_state(160), 161 * SECOND)
        first = found.since(162 * SECOND)

        assert first is not None
        assert first.now_ns == 142 * SECOND

    def test_they_are_over_half_a_minute_after_the_last(self) -> None:
        found = hitches((100, 101), (110, 111), (120, 121))

        assert found.since(151 * SECOND) is not None
        assert found.since(152 * SECOND) is None

    def test_rest_is_the_longest_time_between_two(self) -> None:
        """From 101 to 110, to 125, to 130."""
        assert hitches((100, 101), (110, 111), (125, 126), (130, 131)).rest_ns == 14 * SECOND

    def test_rest_before_a_new_beginning_does_not_count(self) -> None:
        assert hitches((100, 101), (125, 126), (200, 201), (205, 206)).rest_ns == 4 * SECOND

    def test_cleared_ones_are_forgotten(self) -> None:
        """A chain has been opened for them."""
        found = hitches((100, 101), (110, 111), (120, 121))
        found.clear()
        found.add(a_state(125), 126 * SECOND)

        assert found.since(127 * SECOND) is None


class TestChain:
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
