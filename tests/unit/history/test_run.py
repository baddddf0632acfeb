"""run: whether a run goes on, and what was known of it earlier."""

from __future__ import annotations

from tests.support.history import NOON, SECOND, a_run


class TestIsLive:
    def test_run_that_wrote_a_moment_ago_goes_on(self) -> None:
        assert a_run(seen_seconds=200).is_live(NOON + 225 * SECOND)

    def test_run_that_has_not_written_for_long_was_killed(self) -> None:
        assert not a_run(seen_seconds=200).is_live(NOON + 226 * SECOND)

    def test_longer_windows_give_it_more_time(self) -> None:
        """Two and a half of them."""
        assert a_run(seen_seconds=200, window_seconds=20.0).is_live(NOON + 250 * SECOND)

    def test_run_with_an_end_does_not_go_on(self) -> None:
        assert not a_run(seen_seconds=200, ended_unix_ns=NOON).is_live(NOON + 200 * SECOND)


class TestAsOf:
    def test_later_end_was_not_known(self) -> None:
        run = a_run(seen_seconds=200, ended_unix_ns=NOON + 200 * SECOND).as_of(NOON + 100 * SECOND)

        assert (run.ended_unix_ns, run.seen_unix_ns) == (None, NOON + 100 * SECOND)

    def test_run_had_no_windows_before_the_first_one(self) -> None:
        """Ten seconds after its begin."""
        run = a_run(0, window_seconds=10.0)

        assert run.as_of(NOON + 9 * SECOND).window_seconds == 0
        assert run.as_of(NOON + 10 * SECOND).window_seconds == 10

    def test_earlier_end_was(self) -> None:
        run = a_run(seen_seconds=50, ended_unix_ns=NOON + 50 * SECOND)

        assert run.as_of(NOON + 100 * SECOND) == run
