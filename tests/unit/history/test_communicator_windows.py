"""history.communicator_windows: places of processes in communicators, and how late they were in one window."""

from __future__ import annotations

from exporter.history.communicator_windows import CommunicatorWindows, LagKey
from exporter.history.window import CommunicatorWindow
from tests.support.history import MS, a_membership

TWO_RANKS = [a_membership(process=1, rank=3), a_membership(process=2, rank=4)]
"""Both in one communicator with 16 ranks, 77, which have entered 41 operations."""


def lags(*, second_ms: int) -> dict[LagKey, int]:
    """So far: the first process has always been first."""
    return {LagKey(1, 77): 0, LagKey(2, 77): second_ms * MS}


def test_place_has_the_hash_and_the_numbers_of_the_membership() -> None:
    found = CommunicatorWindows().build((1, 2), TWO_RANKS, lags(second_ms=0))

    assert found[2] == [CommunicatorWindow(77, 4, 16, 41, 0)]


def test_lag_is_that_of_the_window() -> None:
    """30 ms by its begin, 100 ms by its end."""
    made = CommunicatorWindows()
    made.build((1, 2), TWO_RANKS, lags(second_ms=30))
    found = made.build((1, 2), TWO_RANKS, lags(second_ms=100))

    assert [found[process][0].lag_ns for process in (1, 2)] == [0, 70 * MS]


def test_lag_of_the_only_rank_of_a_node_is_unknown() -> None:
    """It is the first one of its node always, and the last one of the job maybe."""
    found = CommunicatorWindows().build((1, 2), [a_membership(process=1)], {LagKey(1, 77): 0})

    assert found[1][0].lag_ns is None


def test_process_without_operations_has_no_lag() -> None:
    found = CommunicatorWindows().build((1, 2), TWO_RANKS, {})

    assert found[2][0].lag_ns == 0


def test_process_without_a_communicator_has_those_of_before() -> None:
    """A job destroys them at its end. What it came late there is not known, and nothing is known once it is gone."""
    made = CommunicatorWindows()
    made.build((1, 2), TWO_RANKS, lags(second_ms=30))
    alive = [made.build((1, 2), TWO_RANKS[:1], {}) for _ in range(2)]
    gone = made.build((1,), TWO_RANKS[:1], {})

    assert [found[2] for found in alive] == [[CommunicatorWindow(77, 4, 16, 41, None)]] * 2
    assert gone.keys() == {1}
