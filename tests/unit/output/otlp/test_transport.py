"""otlp.transport: what the settings of a receiver make of a request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.output.otlp.transport import OtlpTransport
from tests.support.certificates import Certificates
from tests.support.http_requests import JSON, PATIENCE_SECONDS
from tests.support.pushing import target
from tests.support.receiver import answer, receiver
from tests.support.traced import only


class TestPost:
    """One request."""

    def test_path_and_query_are_those_of_the_url(self) -> None:
        with receiver() as found:
            OtlpTransport(target(f"{found.url}/base?key=a%20b")).post(b"{}", JSON, PATIENCE_SECONDS)

            assert only(found.requests).path == "/base/v1/metrics?key=a%20b"

    def test_url_without_a_path_means_the_root(self) -> None:
        """The endpoint of the metrics alone is used unchanged."""
        with receiver() as found:
            OtlpTransport(replace(target(found.url), url=found.url)).post(b"{}", JSON, PATIENCE_SECONDS)

            assert only(found.requests).path == "/"

    def test_headers_of_the_configuration_are_in_every_request(self) -> None:
        with receiver() as found:
            transport = OtlpTransport(replace(target(found.url), headers=(("api-key", "secret"), ("X-Scope", "a b"))))
            for _ in range(2):
                transport.post(b"{}", JSON, PATIENCE_SECONDS)

            assert [(r.headers["Api-Key"], r.headers["x-scope"]) for r in found.requests] == [("secret", "a b")] * 2

    def test_long_body_is_cut(self) -> None:
        """At 64 KiB; the log shows one line of it."""
        with receiver([answer(400, b"a" * 200_000)]) as found:
            response = OtlpTransport(target(found.url)).post(b"{}", JSON, PATIENCE_SECONDS)

        assert (response.status, response.body) == (400, b"a" * 65_536)


class TestCertificates:
    """Files of a receiver's settings."""

    def test_client_certificate_and_authority_are_used(self, issued: Certificates) -> None:
        settings = {"client_certificate_file": issued.client, "client_key_file": issued.client_key}
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            transport = OtlpTransport(target(found.url, ca_file=issued.authority, **settings))

            assert transport.post(b"{}", JSON, PATIENCE_SECONDS).status == 200

    def test_file_that_cannot_be_used_names_the_receiver(self, tmp_path: Path) -> None:
        file = tmp_path / "authority"
        file.touch()
        with pytest.raises(BadInput) as raised:
            OtlpTransport(target("https://127.0.0.1:4318", ca_file=file))

        assert str(raised.value) == f"OTLP receiver default: {file} holds no certificates (PEM)"

    def test_files_are_not_read_without_tls(self, issued: Certificates) -> None:
        settings = {"client_certificate_file": issued.client, "client_key_file": issued.untrusted_key}
        with receiver() as found:
            transport = OtlpTransport(target(found.url, **settings))

            assert transport.post(b"{}", JSON, PATIENCE_SECONDS).status == 200
