"""http_client.proxy: HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from exporter.errors import BadInput
from exporter.http_client.errors import ProxyFailed, TlsFailed
from exporter.http_client.proxy import proxy_for
from tests.support.certificates import Certificates
from tests.support.http_requests import post
from tests.support.proxy_rules import DIRECT, MORE_DIRECT, RULES, Rule
from tests.support.receiver import ELSEWHERE, proxy, receiver, refused
from tests.support.traced import only


class TestProxy:
    """Requests through a forward proxy."""

    @pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
    def test_http_request_names_the_whole_url(self, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        """The server receives what it would receive without a proxy."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv(variable, between.url)
            response = post(f"{found.url_behind_proxy}/v1/metrics?key=b", b'{"a": 1}')
            request = only(found.requests)

        assert response.status == 200
        assert (request.path, request.body) == ("/v1/metrics?key=b", b'{"a": 1}')
        assert request.headers["Host"] == urlsplit(found.url_behind_proxy).netloc
        assert between.requests == [(f"POST {found.url_behind_proxy}/v1/metrics?key=b HTTP/1.1", None)]

    @pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
    def test_https_uses_a_tunnel(self, issued: Certificates, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        """The proxy learns host and port, and none of the request's headers."""
        with receiver(tls=issued.server_context()) as found, proxy() as between:
            monkeypatch.setenv(variable, between.url)
            response = post(found.url_behind_proxy, ca_file=issued.authority)
            asked = only(between.requests)

        assert response.status == 200
        assert asked.line.rpartition(" ")[0] == f"CONNECT {urlsplit(found.url_behind_proxy).netloc}"
        assert asked.authorization is None

    def test_certificate_in_a_tunnel_must_be_the_server_s(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with receiver(tls=issued.server_context(is_wrong_host=True)) as found, proxy() as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            with pytest.raises(TlsFailed, match="Hostname mismatch"):
                post(found.url_behind_proxy, ca_file=issued.authority)

            assert found.requests == []

    def test_credentials_are_sent_to_the_proxy_only(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`user:p@ss`, percent-encoded in the address, base64 on the wire: dXNlcjpwQHNz."""
        with (
            receiver() as plain,
            receiver(tls=issued.server_context()) as secure,
            proxy() as between,
        ):
            for variable in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(variable, between.url.replace("//", "//user:p%40ss@"))
            post(plain.url_behind_proxy)
            post(secure.url_behind_proxy, ca_file=issued.authority)
            received = [*plain.requests, *secure.requests]

        assert [asked.authorization for asked in between.requests] == ["Basic dXNlcjpwQHNz"] * 2
        assert [request.headers["Proxy-Authorization"] for request in received] == [None, None]

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_this_machine_is_reached_directly(self, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
        """Without NO_PROXY: a proxy would look for the receiver on itself."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            post(found.url.replace("127.0.0.1", host))

            assert (len(found.requests), between.requests) == (1, [])

    def test_other_hosts_use_the_proxy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            monkeypatch.setenv("NO_PROXY", "example.com")
            post(found.url_behind_proxy)

            assert len(between.requests) == 1

    def test_final_dot_of_a_host_is_in_no_certificate(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`receiver.example.` is the host that the certificate names; with the dot its name would not match."""
        with receiver(tls=issued.server_context()) as found, proxy() as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            response = post(found.url_behind_proxy.replace(".example", ".example."), ca_file=issued.authority)

        assert response.status == 200

    def test_scheme_may_be_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """HOST:PORT, which curl accepts too."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url.removeprefix("http://"))
            post(found.url_behind_proxy)

            assert len(between.requests) == 1

    def test_server_that_the_proxy_cannot_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """For http the response is the proxy's 502; for https there is no tunnel."""
        with refused() as url, proxy() as between:
            for variable in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(variable, between.url)
            behind_proxy = url.replace("127.0.0.1", ELSEWHERE)
            response = post(behind_proxy)
            with pytest.raises(ProxyFailed, match=r"^the proxy opened no tunnel: 502 Bad Gateway$"):
                post(behind_proxy.replace("http", "https"))

        assert response.status == 502

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
    def test_value_that_is_no_proxy_is_refused(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        """The message does not repeat it: it may hold a password."""
        monkeypatch.setenv("HTTPS_PROXY", value)
        with pytest.raises(BadInput) as raised:
            proxy_for(urlsplit("https://collector.example:4318"))

        assert raised.value.one_line() == ("HTTPS_PROXY does not name a proxy that can be used; want http://HOST:PORT")

    def test_proxy_that_cannot_be_used_does_not_matter_to_a_direct_connection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:1080")
        with receiver() as found:
            assert post(found.url).status == 200

    def test_cgi_program_has_no_http_proxy(self) -> None:
        """There the header `Proxy` of a client becomes HTTP_PROXY: Go's clients refuse it too."""
        environment = {"HTTP_PROXY": "http://proxy.example:3128", "REQUEST_METHOD": "GET"}
        with pytest.raises(BadInput, match=r"^HTTP_PROXY is not used while REQUEST_METHOD is set"):
            proxy_for(urlsplit("http://gpu7:4318"), environment)


class TestRules:
    """Which URLs are reached through which proxy. tests/conformance compares RULES with Go's clients."""

    @pytest.mark.parametrize("rule", RULES + MORE_DIRECT, ids=str)
    def test_proxy_is_that_of_the_table(self, rule: Rule) -> None:
        found = proxy_for(urlsplit(rule.url), rule.environment)

        assert (f"{found.host}:{found.port}" if found else DIRECT) == rule.expected
