"""otlp.transport: what the settings of a receiver make of a request."""

from __future__ import annotations

import datetime
import logging
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from exporter.errors import BadInput
from exporter.output.otlp.transport import OtlpTransport
from tests.support.certificates import Certificates
from tests.support.http_requests import JSON
from tests.support.patience import PATIENCE_SECONDS
from tests.support.pushing import Source, delivering, target, totals
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


class TestExpiry:
    """A client certificate that expires between two pushes, and is renewed on disk."""

    def test_pushes_resume_with_the_renewed_certificate_and_nothing_is_lost(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Refused pushes are counted and logged once, and what they held is in the next one that is delivered."""
        caplog.set_level(logging.INFO, logger="exporter.output")
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        file = tmp_path / "client.pem"
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        authority.issue_cert("node.example", not_after=soon).private_key_and_cert_chain_pem.write_to_path(str(file))
        source = Source(*range(5, 5000, 5))
        files = {"ca_file": tmp_path / "ca.pem", "client_certificate_file": file}
        with receiver(tls=_requiring(authority)) as found:
            to = target(found.url, interval="200ms", temporality="delta", **files)
            with delivering(to, source) as push:
                push.awaited("delivered", 2)
                push.awaited("not_trusted", 3)
                authority.issue_cert("node.example").private_key_and_cert_chain_pem.write_to_path(str(file))
                push.awaited("delivered", push.pushes()["delivered"] + 2)
                push.stop()
                taken = source.taken
            deltas = [total for (total,) in totals(found.requests)]

        shown = f"OTLP receiver default ({found.url}/v1/metrics)"
        assert sum(deltas) == 5 * taken
        assert caplog.messages == [
            f"{shown}: not trusted: TLS handshake failed: the server refuses the client certificate: it has expired; "
            "counted in gpustall_exporter_pushes_total, logged once until a push is delivered",
            f"{shown}: reloaded certificate files",
            f"{shown}: delivery of pushes has resumed",
        ]

    def test_wrong_files_are_reported_and_the_last_ones_used(
        self, issued: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A key of another certificate, once for all pushes."""
        key = tmp_path / "client.key"
        key.write_bytes(issued.client_key.read_bytes())
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            files = {"client_certificate_file": issued.client, "client_key_file": key}
            transport = OtlpTransport(target(found.url, ca_file=issued.authority, **files))
            key.write_bytes(issued.untrusted_key.read_bytes())
            statuses = [transport.post(b"{}", JSON, PATIENCE_SECONDS).status for _ in range(3)]

        assert statuses == [200] * 3
        assert caplog.messages == [
            f"OTLP receiver default ({found.url}/v1/metrics): cannot use the changed certificate files, keeping the last "
            f"ones: the client certificate {issued.client} does not match the key {key}; give a certificate and its own "
            "key, both PEM, the key without a passphrase"
        ]


def _requiring(authority: trustme.CA) -> ssl.SSLContext:
    """A receiver that requires a certificate of the authority, and has one itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context
