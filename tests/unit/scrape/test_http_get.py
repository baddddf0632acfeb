"""fetching: URLs as people type them, and servers that answer well, badly or not at all."""

from __future__ import annotations

import base64
import threading
import time
from http.server import BaseHTTPRequestHandler

import pytest

from exporter.errors import BadInput
from exporter.scrape import http_get
from exporter.scrape.http_get import ScrapeFailed, ScrapeTarget, fetch, target_of
from tests.support.metrics_page import PROTOBUF, page, says
from tests.support.receiver import refused

DATE_OF_1790000000 = "Mon, 21 Sep 2026 14:13:20 GMT"


class TestTarget:
    """What --url says."""

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
    def test_what_is_left_out_is_filled_in(self, text: str, url: str) -> None:
        """http, and the usual path."""
        assert target_of(text).url == url

    def test_a_password_is_not_shown(self) -> None:
        """Nor is a query, which may hold a token."""
        target = target_of("https://sre:s%40fe@gpu7/metrics?token=b7c2")

        assert target == ScrapeTarget(
            "https://gpu7/metrics?token=b7c2", "https://gpu7/metrics", "Basic " + base64.b64encode(b"sre:s@fe").decode()
        )

    @pytest.mark.parametrize(
        "text",
        ["", "ftp://gpu7/", "file:///etc/passwd", "http://", "http://[::1", "gpu7:port", "http://gpu7/\x1b[2J", "a b"],
    )
    def test_what_is_no_url_of_http_is_refused(self, text: str) -> None:
        """With an example, and without repeating what may be a password."""
        with pytest.raises(BadInput) as refusal:
            target_of(text)

        assert refusal.value.one_line().endswith("such as http://gpu7:10478/metrics")


class TestFetch:
    """One answer."""

    def test_the_protobuf_format_is_asked_for(self) -> None:
        """Only that has every bucket."""
        with page({"/metrics": says(b"body")}) as found:
            answer = fetch(target_of(found.base))

        assert answer.body == b"body"
        assert found.asked[0]["Accept"].startswith("application/vnd.google.protobuf;proto=io.prometheus.client")

    def test_a_password_is_sent_but_not_on_to_another_server(self) -> None:
        """A redirect is followed without it."""
        with page({"/metrics": says(b"there")}) as other:
            moved = says(b"", status=302, headers={"Location": f"{other.base}/metrics"})
            with page({"/metrics": moved}) as found:
                answer = fetch(target_of(found.base.replace("http://", "http://sre:safe@")))

        assert answer.body == b"there"
        assert (found.asked[0]["Authorization"], other.asked[0]["Authorization"]) == ("Basic c3JlOnNhZmU=", None)

    def test_a_redirect_to_a_file_is_not_followed(self) -> None:
        """A server does not choose what is read here."""
        moved = says(b"", status=302, headers={"Location": "file:///etc/passwd"})
        with page({"/metrics": moved}) as found, pytest.raises(ScrapeFailed, match="status 302"):
            fetch(target_of(found.base))

    def test_a_clock_that_is_another_one_counts(self) -> None:
        """Its counters began by that clock."""

        def without_own_date(request: BaseHTTPRequestHandler) -> None:
            request.send_response_only(200)
            request.send_header("Content-Type", PROTOBUF)
            request.send_header("Date", DATE_OF_1790000000)
            request.end_headers()

        with page({"/metrics": without_own_date}) as found:
            answer = fetch(target_of(found.base))

        assert answer.at.unix_ns == 1_790_000_000 * 10**9

    def test_a_clock_that_agrees_does_not(self) -> None:
        """It has whole seconds, and we have all of them."""
        before_ns = time.time_ns()
        with page({"/metrics": says(b"")}) as found:
            answer = fetch(target_of(found.base))

        assert before_ns <= answer.at.unix_ns <= time.time_ns()


class TestNoAnswer:
    """Reasons, each naming the address and what to do."""

    def test_nobody_listens(self) -> None:
        """The exporter does not run."""
        with refused() as gone, pytest.raises(ScrapeFailed) as failure:
            fetch(target_of(gone))

        assert failure.value.one_line() == (
            f"{gone}/metrics: connection refused; start `gpu-stall-exporter run` there, or give --url"
        )

    def test_a_page_of_html(self) -> None:
        """Some other program has the port."""
        with (
            page({"/metrics": says(b"<html>", "text/html; charset=utf-8")}) as found,
            pytest.raises(ScrapeFailed) as failure,
        ):
            fetch(target_of(found.base))

        assert failure.value.one_line().startswith(
            f"{found.base}/metrics: answers with text/html, not with metrics in the protobuf format; want the address of"
        )

    def test_no_such_page(self) -> None:
        """The path is wrong."""
        with page({}) as found, pytest.raises(ScrapeFailed) as failure:
            fetch(target_of(f"{found.base}/other?token=b7c2"))

        assert failure.value.one_line() == (
            f"{found.base}/other: status 404 Not Found; see that --url has the right path"
        )

    def test_too_much(self) -> None:
        """Rather than all of the memory."""
        with page({"/metrics": says(bytes(3 << 20))}) as found, pytest.raises(ScrapeFailed, match="more than 2 MiB"):
            fetch(target_of(found.base), bytes_max=2 << 20)

    def test_cut_short(self) -> None:
        """Half of an answer is none."""
        short = says(b"half", headers={"Content-Length": "8"})
        with page({"/metrics": short}) as found, pytest.raises(ScrapeFailed, match="no whole HTTP: IncompleteRead"):
            fetch(target_of(found.base))

    @pytest.mark.parametrize("head", [b"", b"x"])
    def test_no_end(self, head: bytes) -> None:
        """Neither silence nor a byte now and then holds it up."""
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
                with pytest.raises(ScrapeFailed, match=r"no whole answer within 0\.2 s"):
                    fetch(target_of(found.base), timeout_seconds=0.2)
            finally:
                is_over.set()

    def test_a_name_that_does_not_exist(self) -> None:
        """`invalid` is promised to have none."""
        with pytest.raises(ScrapeFailed, match=r"^http://gpu7\.invalid/metrics: the name cannot be resolved"):
            fetch(target_of("gpu7.invalid"))


class TestProxy:
    """Of the environment."""

    def test_this_machine_needs_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The proxy would look for the exporter on itself."""
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with refused() as gone, page({"/metrics": says(b"here")}) as found:
            monkeypatch.setenv("http_proxy", gone)

            assert fetch(target_of(found.base)).body == b"here"

    def test_another_one_is_asked_through_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is given the whole URL."""
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with page({"http://gpu7.invalid/metrics": says(b"there")}) as proxy:
            monkeypatch.setenv("http_proxy", proxy.base)

            assert fetch(target_of("gpu7.invalid")).body == b"there"


def test_timeout_is_shorter_than_patience() -> None:
    """Of somebody who waits for the first picture."""
    assert http_get.TIMEOUT_SECONDS <= 10
