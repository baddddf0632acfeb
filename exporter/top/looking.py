"""One look at an exporter: ask, read, compare with the look before.

In: a Target. Out: a View, or an ExporterError that names the target and what to do.
"""

from __future__ import annotations

from exporter.top import exposition, fetching
from exporter.top.fetching import Target
from exporter.top.rates import Observer
from exporter.top.view import View


class Looker:
    """Looks again and again; after a look that failed, the next is compared with the last that did not."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._observer = Observer()

    def look(self) -> View:
        """What there is now. Raises NoAnswer or NotOurs."""
        answer = fetching.fetch(self._target)
        try:
            scrape = exposition.read(answer.body, answer.at)
        except exposition.NotOurs as error:
            raise exposition.NotOurs(f"{self._target.shown}: answers with {error}", remedy=fetching.WANTED) from None
        return self._observer.view_of(scrape)
