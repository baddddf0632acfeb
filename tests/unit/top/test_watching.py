"""watching: a thread that looks, and news that are told once."""

from __future__ import annotations

import threading

import pytest

from exporter.scrape.http_get import ScrapeFailed
from exporter.scrape.view import View
from exporter.top.watching import News, Watcher
from tests.support.traced import eventually
from tests.support.views import JOB

INTERVAL_SECONDS = 0.001


class TestWatcher:
    """Looks at an interval."""

    def test_what_is_seen_is_news_once(self) -> None:
        """Of several the last."""
        go_on = threading.Event()
        left = iter([JOB, JOB])

        def look() -> View:
            seen = next(left, None)
            if seen is None:
                go_on.wait()
                raise ScrapeFailed("over")
            return seen

        watcher = Watcher(look, INTERVAL_SECONDS)
        watcher.start()

        assert eventually(watcher.latest, "news") == News(JOB)
        go_on.set()
        failed = eventually(lambda: (news := watcher.latest()) and not news.view and news, "a failure")
        watcher.stop()
        assert failed == News(None, "over")

    def test_a_look_that_hangs_holds_nobody_up(self) -> None:
        """There are no news, and that is told at once."""
        is_over = threading.Event()

        def look() -> View:
            is_over.wait()
            raise ScrapeFailed("over")

        watcher = Watcher(look, INTERVAL_SECONDS)
        watcher.start()

        assert watcher.latest() is None
        watcher.stop()
        is_over.set()

    def test_a_defect_is_raised_where_the_news_are_asked_for(self) -> None:
        """Not printed across the table."""

        def look() -> View:
            raise ZeroDivisionError

        watcher = Watcher(look, INTERVAL_SECONDS)
        watcher.start()

        with pytest.raises(ZeroDivisionError):
            eventually(watcher.latest, "the defect")

    def test_stop_ends_it(self) -> None:
        """After a look that goes on, no other begins."""
        looks = []

        def look() -> View:
            looks.append(1)
            watcher.stop()
            raise ScrapeFailed("over")

        watcher = Watcher(look, INTERVAL_SECONDS)
        watcher.start()
        watcher.join()

        assert len(looks) == 1
