"""top.scraper: views with lines of Python, from an exporter that has them, one that does not, and one that fails."""

from __future__ import annotations

import json

from exporter import catalog
from exporter.model import Identity
from exporter.output import protobuf
from exporter.scrape.http_get import parse_target
from exporter.scrape.view import View
from exporter.top.scraper import Scraper
from tests.support.metrics_page import Respond, page, responds
from tests.support.records import TRAINER, point, snapshot_of

METRICS = b"".join(
    protobuf.render(snapshot_of(catalog.workload.INFO, point(1, *("4026",) * len(catalog.workload.INFO.labels))))
)


def sites(calls: int, identity: Identity = TRAINER) -> Respond:
    """The page /call-sites after so many slow calls of 20 ms."""
    labels = dict(zip(("node", "rank", "container", "namespace", "pod"), identity.values(), strict=True))
    site = {"operation": "cudaMalloc", "line": "step (train.py:142)", "slow_calls": calls}
    site |= {"slow_seconds": calls * 0.02, "slow_from_seconds": 0.01}
    body = json.dumps(
        {
            "version": 1,
            "read_monotonic_seconds": calls / 10,
            "processes": [{**labels, "pid": 4026, "call_sites": [site]}],
        }
    )
    return responds(body.encode(), "application/json")


def last_view(*pages: Respond | None) -> View:
    """The view of the last of some scrapes. pages: /call-sites at each of them; None: there is no such page."""
    with page(found := {"/metrics": responds(METRICS)}) as server:
        scraper = Scraper(parse_target(server.base))
        for one in pages:
            found.pop("/call-sites", None)
            found |= {"/call-sites": one} if one else {}
            view = scraper.scrape()
    return view


class TestLines:
    def test_workload_has_its_lines(self) -> None:
        """As of the second scrape, since there is nothing to compare the first one with."""
        (workload,) = last_view(sites(4), sites(40)).workloads

        assert [(one.operation, one.line) for one in workload.slow_lines] == [("cudaMalloc", "step (train.py:142)")]
        assert last_view(sites(4)).workloads[0].slow_lines == ()

    def test_lines_of_another_workload_are_left_out(self) -> None:
        (workload,) = last_view(sites(4, Identity(rank="7")), sites(40, Identity(rank="7"))).workloads

        assert workload.slow_lines == ()

    def test_exporter_without_the_page_has_none(self) -> None:
        """One of an older version."""
        view = last_view(None, None)

        assert [one.slow_lines for one in view.workloads] == [()]
        assert not any("Python" in note for note in view.notes)

    def test_failure_is_a_note_and_the_metrics_are_shown(self) -> None:
        view = last_view(sites(4), responds(b"busy", "text/plain", 503))

        assert len(view.workloads) == 1
        assert view.notes[-1].startswith("no lines of Python: http://127.0.0.1:")
        assert "status 503" in view.notes[-1]

    def test_page_with_other_content_is_a_note(self) -> None:
        view = last_view(responds(b"[]", "application/json"))

        assert view.notes[-1] == "no lines of Python: want an object of at most 400000 members, not an array"
