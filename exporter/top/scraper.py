"""Scrapes an exporter and compares each scrape with the last one: a ScrapeTarget -> Views, with lines of Python."""

from __future__ import annotations

from dataclasses import replace

from exporter.scrape import exposition, http_get
from exporter.scrape.http_get import NotFound, ScrapeFailed, ScrapeTarget
from exporter.scrape.rates import ViewBuilder
from exporter.scrape.slow_lines import BYTES_MAX, PAGE, SlowLines, call_sites_of
from exporter.scrape.view import View


class Scraper:
    """After a scrape that failed, the next one is compared with the last that succeeded."""

    def __init__(self, target: ScrapeTarget) -> None:
        self._target = target
        self._views = ViewBuilder()
        self._lines = SlowLines()

    def scrape(self) -> View:
        """Raises ScrapeFailed or NotOurs, which name the target and the remedy."""
        page = http_get.fetch(self._target)
        try:
            scrape = exposition.read(page.body, page.at)
        except exposition.NotOurs as error:
            raise exposition.NotOurs(f"{self._target.shown}: {error}", remedy=http_get.WANTED) from None
        return self._with_lines(self._views.add(scrape))

    def _with_lines(self, view: View) -> View:
        """An exporter of an older version has no lines; a failure is a note."""
        try:
            page = http_get.fetch(self._target.beside(PAGE), bytes_max=BYTES_MAX, wanted=http_get.DOCUMENT)
            lines = self._lines.add(call_sites_of(page.body))
        except NotFound:
            return view
        except (ScrapeFailed, ValueError) as error:
            return replace(view, notes=(*view.notes, f"no lines of Python: {error}"))
        workloads = (replace(one, slow_lines=lines.get(one.identity, ())) for one in view.workloads)
        return replace(view, workloads=tuple(workloads))
