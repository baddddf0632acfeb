"""explanation: the status of a time span, and the times in which nothing was recorded."""

from __future__ import annotations

import pytest

from exporter.chains.event import ChainEvent
from exporter.explain.explanation import Explanation, Gap, Status, explain
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.selection import Selection
from tests.support.history import MS, NOON, SECOND, a_run, a_window, an_event, resolved, times


def explanation(
    *events: ChainEvent,
    run: Run | None = None,
    windows_from: int = -90,
    windows_until: int = 200,
    **changes: object,
) -> Explanation:
    """The 300 s before NOON + 200 s, with a window every ten seconds."""
    windows = [a_window(float(ended), **changes) for ended in range(windows_from, windows_until + 1, 10)]
    return explain(
        [run or a_run()],
        [RecordedEvent(1, event) for event in events],
        [RecordedWindows(1, one.began_unix_ns, one.ended_unix_ns, [one]) for one in windows],
        selection=Selection(),
        since_unix_ns=NOON - 100 * SECOND,
        now_unix_ns=NOON + 200 * SECOND,
    )


class TestStatus:
    @pytest.mark.parametrize(
        ("found", "status"),
        [
            (explanation(an_event()), Status.SLOW),
            (explanation(an_event(), run=a_run(ended_unix_ns=NOON + 190 * SECOND)), Status.SLOW_WHEN_STOPPED),
            (explanation(resolved(an_event(), 24)), Status.WAS_SLOW),
            (explanation(), Status.FINE),
            (explanation(run=a_run(has_chains=False)), Status.CHAINS_OFF),
            (explanation(windows_until=-100), Status.NO_DATA),
            (explanation(steps=times(1, 20 * MS), windows_until=-60), Status.TOO_EARLY),
        ],
        ids=lambda value: value.value if isinstance(value, Status) else "",
    )
    def test_status(self, found: Explanation, status: Status) -> None:
        assert found.status is status


class TestLive:
    def test_run_that_has_not_written_for_long_is_not_live(self) -> None:
        """It was killed: a run writes every ten seconds."""
        assert explanation(run=a_run(seen_seconds=174.0)).is_live is False

    def test_run_with_long_windows_may_write_rarely(self) -> None:
        """Two and a half windows of 20 s."""
        assert explanation(run=a_run(seen_seconds=151.0, window_seconds=20.0)).is_live is True


class TestGaps:
    def test_time_without_windows_is_a_gap(self) -> None:
        assert explanation(windows_until=100).gaps == (
            Gap(NOON + 100 * SECOND, NOON + 200 * SECOND, is_running=True, is_begin=False),
        )

    def test_history_begins_with_its_first_run(self) -> None:
        """And not with its first window, which is ten seconds later."""
        found = explanation(run=a_run(150.0), windows_from=170)

        assert found.gaps == (Gap(NOON - 100 * SECOND, NOON + 150 * SECOND, is_running=True, is_begin=True),)

    def test_25_s_without_a_window_are_no_gap(self) -> None:
        assert explanation(windows_until=180).gaps == ()
