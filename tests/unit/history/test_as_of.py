"""history.as_of: no record is later than now, or than a time in the past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.history.as_of import Known, known_now, known_then
from exporter.history.file_guard import claim
from exporter.history.reader import History, opened
from exporter.history.store import Store
from exporter.history.window_batch import WindowBatch
from tests.support.history import NOON, SECOND, a_run, a_window, an_event, resolved

AHEAD_SECONDS = 8 * 3600
"""How far the clock was ahead until it was set back to NOON."""


class Written:
    """A run that began while the clock was ahead: a chain that was resolved then, one that is open, and one since NOON.

    A fourth one opened before the clock was ahead, and was resolved while it was.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state" / "history.sqlite"
        self._file = claim(self.path)
        began_unix_ns = NOON + AHEAD_SECONDS * SECOND
        self.store = Store(self._file, 4 << 20, began_unix_ns=began_unix_ns, version="1.0", has_chains=True)
        over, still_open = (an_event(AHEAD_SECONDS + 8, chain_id=digit * 32) for digit in "12")
        self.store.write(
            [over, resolved(over, 5), still_open], [batch(AHEAD_SECONDS + 20)], began_unix_ns + 20 * SECOND
        )
        self.store.write([an_event(chain_id="3" * 32)], [batch(20)], NOON + 20 * SECOND)
        before = an_event(-60.0, chain_id="4" * 32)
        self.store.write([before, resolved(before, AHEAD_SECONDS)], [], NOON + 20 * SECOND)

    def close(self) -> None:
        self.store.close()
        self._file.release()


def batch(ended_seconds: float) -> WindowBatch:
    """One window of ten seconds. ended_seconds: after NOON."""
    window = a_window(ended_seconds)
    return WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window])


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    written = Written(tmp_path)
    with opened(written.path) as found:
        yield found
    written.close()


def chains(known: Known) -> list[tuple[str, int]]:
    """The first digit of each chain's id, and when its last event was, in seconds after NOON."""
    last = {one.event.chain_id[0]: (one.event.at_unix_ns - NOON) // SECOND for one in known.events}
    return sorted(last.items())


def ends(known: Known) -> list[int]:
    """Ends of windows, in seconds after NOON."""
    return [(one.ended_unix_ns - NOON) // SECOND for one in known.windows]


class TestNow:
    """Thirty seconds after the clock was set back."""

    @pytest.fixture
    def known(self, history: History) -> Known:
        return known_now(history, NOON - 300 * SECOND, NOON + 30 * SECOND)

    def test_chain_that_was_resolved_in_the_future_is_left_out(self, known: Known) -> None:
        """It would be reported for eight hours."""
        assert not {"1", "4"} & dict(chains(known)).keys()

    def test_chain_that_is_still_open_is_open_now(self, known: Known) -> None:
        assert chains(known) == [("2", 30), ("3", 1)]

    def test_windows_of_the_future_are_left_out(self, known: Known) -> None:
        assert ends(known) == [20]

    def test_run_began_no_later_than_now(self, known: Known) -> None:
        """It goes on."""
        (run,) = known.runs

        assert (run.began_unix_ns, run.seen_unix_ns) == (NOON + 30 * SECOND, NOON + 20 * SECOND)
        assert run.is_live(NOON + 30 * SECOND)

    def test_latest_record_says_how_far_the_clock_was_ahead(self, known: Known) -> None:
        assert known.ahead_unix_ns == NOON + (AHEAD_SECONDS + 20) * SECOND

    def test_all_is_known_when_its_time_has_come(self, history: History) -> None:
        known = known_now(history, NOON, NOON + (AHEAD_SECONDS + 60) * SECOND)

        assert ends(known) == [20, AHEAD_SECONDS + 20]
        assert known.ahead_unix_ns == 0


class TestStopped:
    def test_run_that_was_killed_before_the_clock_was_set_back_does_not_go_on(self) -> None:
        run = a_run(AHEAD_SECONDS, AHEAD_SECONDS + 20)

        assert not run.is_live(NOON)
        assert not run.until(NOON).is_live(NOON)


class TestThen:
    def test_what_came_later_is_not_known(self, history: History) -> None:
        """A time before the second write."""
        known = known_then(history, NOON - 300 * SECOND, NOON + 10 * SECOND)

        assert (known.runs, chains(known), ends(known), known.ahead_unix_ns) == ([], [("3", 1), ("4", -59)], [], 0)
