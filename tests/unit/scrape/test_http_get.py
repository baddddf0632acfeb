"""scrape.http_get: URLs as people type them, and servers that answer well, badly or not at all."""

from __future__ import annotations

import base64
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from exporter.errors import BadInput
from exporter.scrape.http_get import DOCUMENT, NotFound, ScrapeFailed, ScrapeTarget, fetch, parse_target
from tests.support.metrics_page import PROTOBUF, page, responds
from tests.support.receiver import refused

DATE_OF_1790000000 = "Mon, 21 Sep 2026 14:13:20 GMT"


class TestParseTarget:
    """The value of --url."""

    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("gpu7:10478", "http://gpu7:10478/metrics"),
            ("http://gpu7:10478", "http://gpu7:10478/metrics"),
            ("https://gpu7/", "https://gpu7/metrics"),
            ("http://[::1]:10478/other", "http://[::1]:10478/other"),
            ("http://gpu7/metrics?a=1#top", "http://gpu7/metrics?a=1"),
        ],
    )
    def test_missing_parts_have_defaults(self, text: str, url: str) -> None:
        assert parse_target(text).url == url

    def test_password_and_query_are_not_shown(self) -> None:
        """A query may hold a token."""
        target = parse_target("https://sre:s%40fe@gpu7/metrics?token=b7c2")

        assert target == ScrapeTarget(
            "https://gpu7/metrics?token=b7c2", "https://gpu7/metrics", "Basic " + base64.b64encode(b"sre:s@fe").decode()
        )

    @pytest.mark.parametrize(
        "text",
        [
            *("", "ftp://gpu7/", "file:///etc/passwd", "http://", "http://[::1", "http://gpu7/\x1b[2J", "a b"),
            *("gpu7:port", "gpu7:0", "gpu7:65536"),
        ],
    )
    def test_other_text_is_refused_with_an_example(self, text: str) -> None:
        """The message does not repeat it: it may hold a password."""
        with pytest.raises(BadInput) as refusal:
            parse_target(text)

        assert refusal.value.one_line().endswith("such as http://gpu7:10478/metrics")


class TestBeside:
    @pytest.mark.parametrize(
        ("text", "url"),
        [
            ("gpu7:10478", "http://gpu7:10478/call-sites"),
            ("https://proxy/gpu7/metrics?token=b7c2", "https://proxy/gpu7/call-sites?token=b7c2"),
        ],
    )
    def test_page_beside_the_metrics_has_the_same_folder_and_query(self, text: str, url: str) -> None:
        """The query may hold a token, which is not shown."""
        found = parse_target(text).beside("call-sites")

        assert (found.url, found.shown) == (url, url.partition("?")[0])


class TestFetch:
    """One response."""

    def test_request_accepts_the_protobuf_format(self) -> None:
        """Only that format has every bucket."""
        with page({"/metrics": responds(b"body")}) as found:
            response = fetch(parse_target(found.base))

        assert response.body == b"body"
        assert found.requests[0]["Accept"].startswith("application/vnd.google.protobuf;proto=io.prometheus.client")

    def test_password_is_sent(self) -> None:
        with page({"/metrics": responds(b"")}) as found:
            fetch(parse_target(found.base.replace("http://", "http://sre:safe@")))

        assert found.requests[0]["Authorization"] == "Basic c3JlOnNhZmU="

    def test_time_of_day_of_a_server_whose_clock_differs_is_used(self) -> None:
        """Its counters were started by that clock."""

        def with_other_date(request: BaseHTTPRequestHandler) -> None:
            request.send_response_only(200)
            request.send_header("Content-Type", PROTOBUF)
            request.send_header("Date", DATE_OF_1790000000)
            request.end_headers()

        with page({"/metrics": with_other_date}) as found:
            response = fetch(parse_target(found.base))

        assert response.at.unix_ns == 1_790_000_000 * 10**9

    def test_own_time_of_day_is_used_where_the_clocks_agree(self) -> None:
        """It is more precise: the header has whole seconds."""
        before_ns = time.time_ns()
        with page({"/metrics": responds(b"")}) as found:
            response = fetch(parse_target(found.base))

        assert before_ns <= response.at.unix_ns <= time.time_ns()


class TestDocument:
    def test_document_is_fetched(self) -> None:
        with page({"/call-sites": responds(b"{}", "application/json")}) as found:
            response = fetch(parse_target(found.base).beside("call-sites"), wanted=DOCUMENT)

        assert (response.body, found.requests[0]["Accept"]) == (b"{}", "application/json")

    def test_page_that_is_not_there_has_an_error_of_its_own(self) -> None:
        """As of an exporter of an older version."""
        with page({}) as found, pytest.raises(NotFound, match="status 404"):
            fetch(parse_target(found.base).beside("call-sites"), wanted=DOCUMENT)

    def test_other_format_is_refused(self) -> None:
        with (
            page({"/call-sites": responds(b"x", PROTOBUF)}) as found,
            pytest.raises(ScrapeFailed, match="not a JSON document"),
        ):
            fetch(parse_target(found.base).beside("call-sites"), wanted=DOCUMENT)


class TestFailure:
    """Each message names the address, the reason and the remedy."""

    def test_connection_refused(self) -> None:
        with refused() as gone, pytest.raises(ScrapeFailed) as failure:
            fetch(parse_target(gone))

        assert failure.value.one_line() == (
            f"{gone}/metrics: connection refused; start `gpu-stall-exporter run` there, or give --url"
        )

    def test_html_page(self) -> None:
        """Another program has the port."""
        with (
            page({"/metrics": responds(b"<html>", "text/html; charset=utf-8")}) as found,
            pytest.raises(ScrapeFailed) as failure,
        ):
            fetch(parse_target(found.base))

        assert failure.value.one_line().startswith(
            f"{found.base}/metrics: content type text/html, not metrics in the protobuf format; want the address of"
        )

    def test_path_that_does_not_exist(self) -> None:
        with page({}) as found, pytest.raises(ScrapeFailed) as failure:
            fetch(parse_target(f"{found.base}/other?token=b7c2"))

        assert failure.value.one_line() == f"{found.base}/other: status 404 Not Found; check the path in --url"

    def test_missing_password(self) -> None:
        """The path is right; the remedy names the option for the password, and the variable that no other user can read."""
        locked = responds(b"unauthorized\n", "text/plain", status=401, headers={"WWW-Authenticate": "Basic"})
        with page({"/metrics": locked}) as found, pytest.raises(ScrapeFailed) as failure:
            fetch(parse_target(found.base))

        assert failure.value.one_line() == (
            f"{found.base}/metrics: status 401 Unauthorized; set --url or GPUSTALL_URL to"
            " http://USER:PASSWORD@HOST:PORT, with a user of its --web.config.file"
        )

    def test_wrong_password(self) -> None:
        """It is not repeated."""
        locked = responds(b"unauthorized\n", "text/plain", status=401)
        with page({"/metrics": locked}) as found, pytest.raises(ScrapeFailed) as failure:
            fetch(parse_target(found.base.replace("://", "://sre:wrong@")))

        assert failure.value.one_line() == (
            f"{found.base}/metrics: status 401 Unauthorized; user or password of --url is wrong"
        )

    @pytest.mark.parametrize(
        ("status", "remedy"), [(403, "access is denied: give --url a user"), (503, "see the log of the exporter")]
    )
    def test_other_errors_say_nothing_of_the_path(self, status: int, remedy: str) -> None:
        """Only a missing page is a matter of the path."""
        with (
            page({"/metrics": responds(b"", "text/plain", status=status)}) as found,
            pytest.raises(ScrapeFailed) as failure,
        ):
            fetch(parse_target(found.base))

        assert remedy in failure.value.one_line()

    def test_redirect_is_not_followed(self) -> None:
        """A server does not choose what is read here; the password would go with the request."""
        moved = responds(b"", status=302, headers={"Location": "https://gpu7/metrics"})
        with page({"/metrics": moved}) as found, pytest.raises(ScrapeFailed) as failure:
            fetch(parse_target(found.base))

        assert failure.value.one_line() == (
            f"{found.base}/metrics: status 302: redirects to https://gpu7/metrics; give --url that address"
        )

    def test_body_that_is_too_large(self) -> None:
        large = responds(bytes(3 << 20))
        with page({"/metrics": large}) as found, pytest.raises(ScrapeFailed, match="larger than 2 MiB"):
            fetch(parse_target(found.base), bytes_max=2 << 20)

    def test_body_that_breaks_off(self) -> None:
        short = responds(b"half", headers={"Content-Length": "8"})
        with page({"/metrics": short}) as found, pytest.raises(ScrapeFailed, match="before the response was complete"):
            fetch(parse_target(found.base))

    @pytest.mark.parametrize("head", [b"", b"x"], ids=["silent", "dripping"])
    def test_server_that_does_not_finish(self, head: bytes) -> None:
        is_over = threading.Event()

        def drip(request: BaseHTTPRequestHandler) -> None:
            if head:
                request.send_response(200)
                request.send_header("Content-Type", PROTOBUF)
                request.end_headers()
            while not is_over.wait(0.02):
                if head:
                    try:
                        request.wfile.write(head)
                    except OSError:
                        return

        with page({"/metrics": drip}) as found:
            try:
                with pytest.raises(ScrapeFailed, match=r"no complete response within 0\.2 s"):
                    fetch(parse_target(found.base), timeout_seconds=0.2)
            finally:
                is_over.set()

    def test_name_without_an_address(self) -> None:
        """The top-level domain `invalid` is reserved for that."""
        with pytest.raises(ScrapeFailed, match=r"^http://gpu7\.invalid/metrics: cannot resolve the host name"):
            fetch(parse_target("gpu7.invalid"))


class TestProxy:
    """The proxy of the environment."""

    def test_this_machine_is_reached_directly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A proxy would look for the exporter on itself."""
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with refused() as gone, page({"/metrics": responds(b"here")}) as found:
            monkeypatch.setenv("http_proxy", gone)

            assert fetch(parse_target(found.base)).body == b"here"

    def test_other_machine_is_reached_through_the_proxy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with page({"http://gpu7.invalid/metrics": responds(b"there")}) as proxy:
            monkeypatch.setenv("http_proxy", proxy.base)

            assert fetch(parse_target("gpu7.invalid")).body == b"there"
