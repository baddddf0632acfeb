"""top.scrape_thread: results of scrapes at an interval."""

from __future__ import annotations

import threading

import pytest

from exporter.scrape.http_get import ScrapeFailed
from exporter.scrape.view import View
from exporter.top.scrape_thread import ScrapeResult, ScrapeThread
from tests.support.traced import eventually
from tests.support.views import JOB

INTERVAL_SECONDS = 0.001


class TestScrapeThread:
    """Scrapes at an interval."""

    def test_each_result_is_returned_once(self) -> None:
        """Several at a time: the last one."""
        go_on = threading.Event()
        left = iter([JOB, JOB])

        def scrape() -> View:
            view = next(left, None)
            if view is None:
                go_on.wait()
                raise ScrapeFailed("over")
            return view

        scrapes = ScrapeThread(scrape, INTERVAL_SECONDS)
        scrapes.start()

        assert eventually(scrapes.latest, "a result") == ScrapeResult(JOB)
        go_on.set()
        failed = eventually(lambda: (result := scrapes.latest()) and not result.view and result, "a failure")
        scrapes.stop()
        assert failed == ScrapeResult(None, "over")

    def test_scrape_that_hangs_does_not_delay_latest(self) -> None:
        """It returns None at once."""
        is_over = threading.Event()

        def scrape() -> View:
            is_over.wait()
            raise ScrapeFailed("over")

        scrapes = ScrapeThread(scrape, INTERVAL_SECONDS)
        scrapes.start()

        assert scrapes.latest() is None
        scrapes.stop()
        is_over.set()

    def test_defect_is_raised_by_latest(self) -> None:
        """A traceback from the thread would spoil the table."""

        def scrape() -> View:
            raise ZeroDivisionError

        scrapes = ScrapeThread(scrape, INTERVAL_SECONDS)
        scrapes.start()

        with pytest.raises(ZeroDivisionError):
            eventually(scrapes.latest, "the defect")

    def test_no_scrape_begins_after_stop(self) -> None:
        count = []

        def scrape() -> View:
            count.append(1)
            scrapes.stop()
            raise ScrapeFailed("over")

        scrapes = ScrapeThread(scrape, INTERVAL_SECONDS)
        scrapes.start()
        scrapes.join()

        assert len(count) == 1
