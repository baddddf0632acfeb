"""web.request_head: a request that a proxy could read differently gets 400, and nothing behind it is answered."""

from __future__ import annotations

import pytest

from exporter.output.web.request_head import BadRequest, refuse_ambiguous
from tests.support.web_server import exchange, pages, serving

SECOND = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
AMBIGUOUS = {
    "both lengths": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both, the other way": b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
    "two lengths": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "two equal lengths": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\ncontent-length: 0\r\n\r\n",
    "list of lengths": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n",
    "signed length": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n",
    "negative length": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "empty length": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n",
    "folded header": b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
    "folded coding": b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n",
    "bare line feed": b"GET /healthz HTTP/1.1\r\nHost: a\nContent-Length: 0\r\n\r\n",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: a\n\n",
    "bare carriage return": b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: b\rContent-Length: 5\r\n\r\n",
    "coding in HTTP/1.0": b"GET /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two codings": b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "space before the colon": b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length : 0\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "nul in a header": b"GET /healthz HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n",
}


class TestServer:
    @pytest.mark.parametrize("request_bytes", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
    def test_ambiguous_request_is_refused_and_the_connection_closed(self, request_bytes: bytes) -> None:
        """The request behind it gets no answer."""
        with serving(pages()) as address:
            answer = exchange(address, request_bytes + SECOND)

        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.split()[1] in ((b"400", b"501") if b"ncoding" in request_bytes else (b"400",))
        assert b"Connection: close" in answer

    @pytest.mark.parametrize(
        "request_bytes",
        [
            b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n0\r\n\r\n",
        ],
    )
    def test_body_of_known_length_is_skipped(self, request_bytes: bytes) -> None:
        """Line feeds in it are no lines of the head."""
        with serving(pages()) as address:
            answer = exchange(address, request_bytes + SECOND.replace(b"Host", b"Connection: close\r\nHost"))

        assert answer.count(b"HTTP/1.1 200 OK") == 2


class TestHead:
    def test_head_in_order_is_accepted(self) -> None:
        refuse_ambiguous(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n")

    def test_status_is_that_of_a_bad_request(self) -> None:
        with pytest.raises(BadRequest) as raised:
            refuse_ambiguous(b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n")

        assert raised.value.status == 400
