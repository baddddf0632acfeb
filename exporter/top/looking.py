"""One look at an exporter: ask, read, compare with the look before.

In: a Target. Out: a View, or an ExporterError that names the target and what to do.
"""

from __future__ import annotations

from exporter.scrape import exposition, http_get
from exporter.scrape.http_get import ScrapeTarget
from exporter.scrape.rates import Observer
from exporter.scrape.view import View


class Looker:
    """Looks again and again; after a look that failed, the next is compared with the last that did not."""

    def __init__(self, target: ScrapeTarget) -> None:
        self._target = target
        self._observer = Observer()

    def look(self) -> View:
        """What there is now. Raises NoAnswer or NotOurs."""
        answer = http_get.fetch(self._target)
        try:
            scrape = exposition.read(answer.body, answer.at)
        except exposition.NotOurs as error:
            raise exposition.NotOurs(f"{self._target.shown}: answers with {error}", remedy=http_get.WANTED) from None
        return self._observer.view_of(scrape)
