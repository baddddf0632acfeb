"""Scrapes an exporter and compares each scrape with the last one: a ScrapeTarget -> Views."""

from __future__ import annotations

from exporter.scrape import exposition, http_get
from exporter.scrape.http_get import ScrapeTarget
from exporter.scrape.rates import ViewBuilder
from exporter.scrape.view import View


class Scraper:
    """After a scrape that failed, the next one is compared with the last that succeeded."""

    def __init__(self, target: ScrapeTarget) -> None:
        self._target = target
        self._views = ViewBuilder()

    def scrape(self) -> View:
        """Raises ScrapeFailed or NotOurs, which name the target and the remedy."""
        page = http_get.fetch(self._target)
        try:
            scrape = exposition.read(page.body, page.at)
        except exposition.NotOurs as error:
            raise exposition.NotOurs(f"{self._target.shown}: {error}", remedy=http_get.WANTED) from None
        return self._views.add(scrape)
