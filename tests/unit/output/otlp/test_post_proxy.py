"""post: what HTTP_PROXY, HTTPS_PROXY and NO_PROXY do."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from exporter.errors import BadInput
from exporter.output.otlp.post import NoResponse, NotTrusted, Poster
from tests.support.certificates import Certificates
from tests.support.posting import (
    posted,
)
from tests.support.pushing import target
from tests.support.receiver import (
    proxy,
    receiver,
    refused,
)
from tests.support.traced import only


class TestProxy:
    """What HTTP_PROXY, HTTPS_PROXY and NO_PROXY say."""

    @pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
    def test_http_asks_for_the_whole_address(self, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        """The receiver sees what it would see without; in capitals or not."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv(variable, between.url)
            said = posted(f"{found.url}?key=b", b'{"a": 1}')
            request = only(found.requests)

        assert said.status == 200
        assert (request.path, request.body) == ("/v1/metrics?key=b", b'{"a": 1}')
        assert request.headers["Host"] == urlsplit(found.url).netloc
        assert between.requests == [(f"POST {found.url}/v1/metrics?key=b HTTP/1.1", None)]

    @pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
    def test_https_goes_through_a_tunnel(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        """The proxy learns host and port, and no header of the receiver's."""
        with receiver(tls=issued.server_context()) as found, proxy() as between:
            monkeypatch.setenv(variable, between.url)
            said = posted(found.url, ca_file=issued.authority)
            asked = only(between.requests)

        assert said.status == 200
        assert asked.line.rpartition(" ")[0] == f"CONNECT {urlsplit(found.url).netloc}"
        assert asked.authorization is None

    def test_tunnel_does_not_speak_for_the_receiver(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The certificate has to be the receiver's, for its own name."""
        with receiver(tls=issued.server_context(is_wrong_host=True)) as found, proxy() as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            with pytest.raises(NotTrusted, match="IP address mismatch"):
                posted(found.url, ca_file=issued.authority)

            assert found.requests == []

    def test_credentials_are_for_the_proxy_alone(self, issued: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
        """`user:p@ss`, percent-encoded in the address, base64 on the wire: dXNlcjpwQHNz."""
        with (
            receiver() as plain,
            receiver(tls=issued.server_context()) as secure,
            proxy() as between,
        ):
            for variable in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(variable, between.url.replace("//", "//user:p%40ss@"))
            posted(plain.url)
            posted(secure.url, ca_file=issued.authority)
            seen = [*plain.requests, *secure.requests]

        assert [asked.authorization for asked in between.requests] == ["Basic dXNlcjpwQHNz"] * 2
        assert [request.headers["Proxy-Authorization"] for request in seen] == [None, None]

    @pytest.mark.parametrize("hosts", ["127.0.0.1", "*", "example.com, 127.0.0.1"])
    def test_hosts_of_no_proxy_are_reached_without(self, monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
        """One, all, or some."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            monkeypatch.setenv("NO_PROXY", hosts)
            posted(found.url)

            assert (len(found.requests), between.requests) == (1, [])

    def test_other_hosts_are_reached_through_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """NO_PROXY is a list of exceptions."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            monkeypatch.setenv("NO_PROXY", "example.com")
            posted(found.url)

            assert len(between.requests) == 1

    @pytest.mark.parametrize("networks", ["127.0.0.0/8", "10.0.0.0/8, 127.0.0.1/32", "nonsense/x,127.0.0.0/30"])
    def test_networks_are_reached_without_it(self, monkeypatch: pytest.MonkeyPatch, networks: str) -> None:
        """As clusters write them."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            monkeypatch.setenv("NO_PROXY", networks)
            posted(found.url)

            assert (len(found.requests), between.requests) == (1, [])

    def test_proxy_of_one_scheme_is_not_used_for_the_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """HTTPS_PROXY is for https alone."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            posted(found.url)

            assert (len(found.requests), between.requests) == (1, [])

    def test_scheme_may_be_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """HOST:PORT, as curl takes it."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url.removeprefix("http://"))
            posted(found.url)

            assert len(between.requests) == 1

    def test_receiver_that_the_proxy_cannot_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """502 is an answer of the proxy, and for https there is no tunnel."""
        with refused() as url, proxy() as between:
            for variable in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(variable, between.url)
            said = posted(url)
            with pytest.raises(NoResponse, match=r"^Tunnel connection failed: 502 Bad Gateway$") as raised:
                posted(url.replace("http", "https"))

        assert said.status == 502
        assert raised.type is NoResponse

    @pytest.mark.parametrize(
        "value",
        [
            "socks5://127.0.0.1:1080",
            "https://127.0.0.1:3128",
            "http://",
            "http://:3128",
            "http://proxy:0",
            "http://proxy:65536",
            "http://proxy:port",
            "http://[::1",
            "http://user:secret@[::1",
        ],
    )
    def test_value_that_names_no_proxy_is_refused(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        """It is not shown, for it may hold a password."""
        monkeypatch.setenv("HTTPS_PROXY", value)
        with pytest.raises(BadInput) as raised:
            Poster(target("https://127.0.0.1:4318"))

        assert raised.value.one_line() == ("HTTPS_PROXY does not name a proxy that can be used; want http://HOST:PORT")
