"""web.pages: responses, without a server."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from exporter import __version__, catalog
from exporter.errors import BadInput
from exporter.model import Identity, Snapshot
from exporter.output.web.call_sites import CallSitesReading, ProcessCallSites
from exporter.output.web.messages import Request
from exporter.output.web.pages import Pages
from exporter.own_metrics.store import OwnMetrics
from tests.support.history import a_call_site
from tests.support.prometheus_protobuf import of_delimited
from tests.support.records import point, snapshot_of

SNAPSHOT = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
SERIES = "gpustall_cuda_operations_total{"


class Answer:
    """The response to one request."""

    def __init__(self, pages: Pages, path: str = "/metrics", method: str = "GET", **headers: str) -> None:
        request = Request(method, path, {name.replace("_", "-"): value for name, value in headers.items()})
        response = pages.answer(request)
        self.status, self.headers = response.status, dict(response.headers)
        self.raw = b"".join(response.body)

    @property
    def text(self) -> str:
        """The body, decompressed."""
        return (gzip.decompress(self.raw) if "Content-Encoding" in self.headers else self.raw).decode()


def pages(snapshot: Callable[[], Snapshot] = lambda: SNAPSHOT, *, is_ready: bool = True, **arguments: object) -> Pages:
    """Pages with one series."""
    return Pages(snapshot, OwnMetrics(), lambda: is_ready, **arguments)  # type: ignore[arg-type]


class TestPages:
    """Paths and methods."""

    def test_metrics_are_served(self) -> None:
        """Text, with the exporter's own metrics in front."""
        answer = Answer(pages())

        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert answer.text.index("process_cpu_seconds_total") < answer.text.index(SERIES)

    def test_openmetrics_is_served_on_request_and_ends_with_eof(self) -> None:
        """A strict parser reads all of it, own metrics included."""
        answer = Answer(pages(), accept="application/openmetrics-text;version=1.0.0")

        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.text.endswith("\n# EOF\n")
        assert "gpustall_cuda_operations" in {family.name for family in parse_openmetrics(answer.text)}

    def test_protobuf_is_served_on_request(self) -> None:
        """With the headers of Prometheus with native histograms; own metrics included."""
        wanted = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

        answer = Answer(pages(), accept=wanted)

        assert answer.headers["Content-Type"].replace(" ", "") == wanted
        assert {"gpustall_cuda_operations_total", "process_cpu_seconds_total"} <= of_delimited(answer.raw).keys()

    def test_body_is_compressed_when_accepted(self) -> None:
        """The text is the same after decompression."""
        answer = Answer(pages(with_exporter_metrics=False), accept_encoding="gzip")

        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.text == Answer(pages(with_exporter_metrics=False)).text

    def test_vary_names_the_headers_that_the_body_depends_on(self) -> None:
        """Formats and encodings share one URL."""
        assert Answer(pages()).headers["Vary"] == "Accept, Accept-Encoding"

    def test_own_metrics_can_be_left_out(self) -> None:
        """--web.disable-exporter-metrics."""
        text = Answer(pages(with_exporter_metrics=False)).text

        assert SERIES in text
        assert "process_" not in text

    def test_metrics_path_can_be_another(self) -> None:
        """--web.telemetry-path; the default path is then not found, and the response names the other."""
        other = pages(telemetry_path="/gpu")

        assert Answer(other, "/gpu").status == 200
        assert (Answer(other).status, Answer(other).text) == (404, "not found; metrics are at /gpu\n")

    def test_time_of_rendering_is_reported_at_the_next_scrape(self) -> None:
        """By format."""
        asked_twice = pages()
        Answer(asked_twice)

        assert 'gpustall_exporter_render_duration_seconds{format="text"}' in Answer(asked_twice).text

    def test_unknown_path_is_404(self) -> None:
        """Also below a known one."""
        assert [Answer(pages(), path).status for path in ("/metrics/", "/x", "//", "")] == [404] * 4

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
    def test_other_methods_are_405(self, method: str) -> None:
        """With the allowed ones."""
        answer = Answer(pages(), method=method)

        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")

    def test_healthz_is_ok_before_the_exporter_is_ready(self) -> None:
        """A restart would not help while it starts."""
        assert Answer(pages(is_ready=False), "/healthz").status == 200

    def test_healthz_fails_when_no_tick_finishes(self) -> None:
        """A kubelet then restarts it."""
        hanging = Answer(pages(is_alive=lambda: False), "/healthz")

        assert (hanging.status, hanging.text) == (503, "no tick has finished for long: the exporter hangs\n")

    def test_readyz_fails_until_the_first_tick(self) -> None:
        """503 before it."""
        assert Answer(pages(is_ready=True), "/readyz").status == 200
        assert Answer(pages(is_ready=False), "/readyz").status == 503

    def test_health_takes_no_snapshot(self) -> None:
        """A probe of Kubernetes every second costs nothing."""

        def fail() -> Snapshot:
            raise AssertionError("a snapshot was taken")

        assert [Answer(pages(fail), path).status for path in ("/healthz", "/readyz", "/")] == [200] * 3

    def test_landing_page_links_to_the_metrics(self) -> None:
        """With the version; the path is escaped."""
        answer = Answer(pages(telemetry_path='/m"<'), "/")

        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert '<a href="/m&quot;&lt;">' in answer.text
        assert f"Version {__version__}." in answer.text


class TestCallSites:
    """/call-sites, for `top`."""

    def test_lines_of_python_are_served(self) -> None:
        sites = ProcessCallSites(Identity(node="gpu7", rank="3"), 100, (a_call_site(),))
        answer = Answer(pages(call_sites=lambda: CallSitesReading(0, [sites])), "/call-sites")

        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
        assert "step (train.py:142)" in answer.text

    def test_it_stands_beside_the_metrics(self) -> None:
        """A proxy may have one path for each node."""
        found = [Answer(pages(telemetry_path="/gpu/metrics"), path) for path in ("/gpu/call-sites", "/call-sites")]

        assert [answer.status for answer in found] == [200, 404]

    def test_equal_requests_are_one_work(self) -> None:
        """It takes some milliseconds to make: as for metrics, a limited number is made at a time."""
        assert pages().sharing_key(Request("GET", "/call-sites", {})) is not None


class TestWork:
    """Requests that share a response."""

    def test_equal_requests_for_metrics_are_one_work(self) -> None:
        """Only format and compression differ, not the headers that select them."""
        one = Request("GET", "/metrics", {"accept": "text/plain", "accept-encoding": "gzip"})
        same = Request("HEAD", "/metrics", {"accept": "*/*", "accept-encoding": "gzip, br"})
        other = Request("GET", "/metrics", {"accept": "text/plain"})

        assert pages().sharing_key(one) == pages().sharing_key(same)
        assert pages().sharing_key(one) != pages().sharing_key(other)

    @pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/x"])
    def test_other_pages_need_no_work(self, path: str) -> None:
        assert pages().sharing_key(Request("GET", path, {})) is None


class TestReload:
    """POST /-/reload."""

    def test_disabled_by_default(self) -> None:
        """--web.enable-lifecycle enables it."""
        assert Answer(pages(), "/-/reload", "POST").status == 403

    @pytest.mark.parametrize("method", ["POST", "PUT"])
    def test_reloads(self, method: str) -> None:
        """Once a request."""
        calls: list[int] = []
        answer = Answer(pages(reload=lambda: calls.append(1) or ()), "/-/reload", method)

        assert (answer.status, answer.text, calls) == (200, "reloaded\n", [1])

    def test_get_does_not_reload(self) -> None:
        calls: list[int] = []
        answer = Answer(pages(reload=lambda: calls.append(1) or ()), "/-/reload")

        assert (answer.status, answer.headers["Allow"], calls) == (405, "POST, PUT", [])

    def test_failed_reload_has_the_reason(self) -> None:
        """Status 500."""

        def fail() -> None:
            raise BadInput("tick.interval in a.toml: '0s'", remedy="want a positive duration")

        answer = Answer(pages(reload=fail), "/-/reload", "POST")

        assert answer.status == 500
        assert "keeping the last configuration: tick.interval in a.toml: '0s'; want a positive duration" in answer.text
