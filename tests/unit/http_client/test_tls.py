"""http_client.tls: servers with TLS, and certificates of every kind."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from exporter.http_client.client import HttpClient
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import CertificateUnusable, TlsFailed
from exporter.http_client.tls import FollowedContext, client_context
from tests.support.certificates import Certificates
from tests.support.http_requests import post
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import receiver


@dataclass(frozen=True)
class Files:
    """A certificate and its key, which are replaced."""

    certificate: Path
    key: Path

    def hold(self, certificate: Path, key: Path) -> None:
        """Have the content of other files."""
        self.certificate.write_bytes(certificate.read_bytes())
        self.key.write_bytes(key.read_bytes())


@contextmanager
def _closing_at_once(tls: ssl.SSLContext) -> Iterator[SimpleNamespace]:
    """A server that closes a connection whose handshake has failed, without reading what the client still sends."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                with accepted, suppress(ssl.SSLError):
                    tls.wrap_socket(accepted, server_side=True, suppress_ragged_eofs=False).close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield SimpleNamespace(url=f"https://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _status(url: str, followed: FollowedContext) -> int:
    """The status of a GET over a new connection."""
    with HttpClient(urlsplit(url), None, followed).request(
        "GET", "/", {}, Deadline.after(PATIENCE_SECONDS)
    ) as response:
        return response.status


class TestTls:
    """Requests over HTTPS."""

    def failure(self, url: str, **files: Path) -> str:
        """Why one side did not trust the other."""
        with pytest.raises(TlsFailed) as raised:
            post(url, **files)
        return str(raised.value)

    def test_authority_of_the_file_is_trusted(self, issued: Certificates) -> None:
        """For its address and for its name."""
        with receiver(tls=issued.server_context()) as found:
            for url in (found.url, found.url.replace("127.0.0.1", "localhost")):
                assert post(url, ca_file=issued.authority).status == 200

    def test_authorities_of_the_system_are_trusted_without_a_file(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """OpenSSL finds them where SSL_CERT_FILE points."""
        monkeypatch.setenv("SSL_CERT_FILE", str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            assert post(found.url).status == 200

    def test_file_replaces_the_authorities_of_the_system(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A public authority must not vouch for a server that has an authority of its own."""
        monkeypatch.setenv("SSL_CERT_FILE", str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            said = self.failure(found.url, ca_file=issued.other_authority)

        assert said == "the server's certificate is not trusted: unable to get local issuer certificate"

    @pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
    def test_variables_of_other_programs_have_no_effect(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        """The library requests reads them."""
        monkeypatch.setenv(variable, str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            said = self.failure(found.url, ca_file=issued.other_authority)

        assert said == "the server's certificate is not trusted: unable to get local issuer certificate"

    def test_server_of_an_unknown_authority_receives_no_request(self, issued: Certificates) -> None:
        """No header either, and so no token."""
        with receiver(tls=issued.server_context()) as found:
            self.failure(found.url, ca_file=issued.other_authority)

            assert found.requests == []

    def test_certificate_of_another_host_is_not_trusted(self, issued: Certificates) -> None:
        with receiver(tls=issued.server_context(is_wrong_host=True)) as found:
            said = self.failure(found.url, ca_file=issued.authority)

            assert said.startswith("the server's certificate is not trusted: IP address mismatch")
            assert found.requests == []

    def test_server_without_tls_fails_the_handshake(self) -> None:
        """Its answer to the handshake is HTTP."""
        with receiver() as found:
            said = self.failure(found.url.replace("http", "https"))

        assert said.startswith("TLS handshake failed: ")

    def test_client_certificate_is_sent_to_a_server_that_requires_one(self, issued: Certificates) -> None:
        """Certificate and key in two files, or both in one."""
        both = {"certificate": issued.client, "key": issued.client_key}
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            assert post(found.url, ca_file=issued.authority, **both).status == 200
            assert post(found.url, ca_file=issued.authority, certificate=issued.server).status == 200

    def test_server_that_requires_a_certificate_refuses_none_and_one_of_another_authority(
        self, issued: Certificates
    ) -> None:
        of_other = {"certificate": issued.untrusted, "key": issued.untrusted_key}
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            without = self.failure(found.url, ca_file=issued.authority)
            with_other = self.failure(found.url, ca_file=issued.authority, **of_other)

            assert without == "TLS handshake failed: the server requires a client certificate"
            assert with_other == (
                "TLS handshake failed: the server refuses the client certificate: its authority is not trusted there"
            )
            assert found.requests == []


class TestRenewed:
    """Certificates that change while the exporter runs."""

    @pytest.fixture
    def files(self, issued: Certificates, tmp_path: Path) -> Files:
        """A pair that the server does not trust."""
        made = Files(tmp_path / "client.pem", tmp_path / "client.key")
        made.hold(issued.untrusted, issued.untrusted_key)
        return made

    def test_renewed_certificate_is_used_from_the_next_connection_on(self, issued: Certificates, files: Files) -> None:
        """Without a restart."""
        changes: list[CertificateUnusable | None] = []
        followed = FollowedContext(issued.authority, files.certificate, files.key, changes.append)
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            with pytest.raises(TlsFailed):
                _status(found.url, followed)
            files.hold(issued.client, issued.client_key)

            assert _status(found.url, followed) == 200
            assert followed() is followed()
        assert changes == [None]

    def test_renewed_authority_is_used_from_the_next_connection_on(self, issued: Certificates, tmp_path: Path) -> None:
        """The authority that signed the certificate of the server."""
        authority = tmp_path / "ca.pem"
        authority.write_bytes(issued.other_authority.read_bytes())
        followed = FollowedContext(authority, None, None, lambda _: None)
        with receiver(tls=issued.server_context()) as found:
            with pytest.raises(TlsFailed):
                _status(found.url, followed)
            authority.write_bytes(issued.authority.read_bytes())

            assert _status(found.url, followed) == 200

    def test_certificate_in_the_middle_of_a_change(self, issued: Certificates, files: Files) -> None:
        """Its key is not written yet: the last pair is used, which is reported once, until both fit."""
        changes: list[CertificateUnusable | None] = []
        files.hold(issued.client, issued.client_key)
        followed = FollowedContext(issued.authority, files.certificate, files.key, changes.append)
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            files.hold(issued.untrusted, issued.client_key)
            assert [_status(found.url, followed) for _ in range(3)] == [200] * 3
            files.hold(issued.untrusted, issued.untrusted_key)
            with pytest.raises(TlsFailed):
                _status(found.url, followed)

        assert [str(one) for one in changes] == [
            f"the client certificate {files.certificate} does not match the key {files.key}",
            "None",
        ]

    def test_missing_files_change_nothing(self, issued: Certificates, files: Files) -> None:
        """A certificate is deleted before it is written again."""
        files.hold(issued.client, issued.client_key)
        followed = FollowedContext(issued.authority, files.certificate, files.key, lambda _: None)
        files.certificate.unlink()
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            assert _status(found.url, followed) == 200


class TestExpired:
    """A client certificate that is no longer valid."""

    @pytest.mark.parametrize("body_bytes", [2, 1_000_000])
    @pytest.mark.parametrize("serving", [receiver, _closing_at_once])
    def test_refusal_names_the_certificate(
        self,
        tmp_path: Path,
        body_bytes: int,
        serving: Callable[..., AbstractContextManager[Any]],
    ) -> None:
        """With TLS 1.3 it comes after the handshake, when the request is being sent; servers close at once then."""
        authority = trustme.CA()
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(server)
        authority.configure_trust(server)
        server.verify_mode = ssl.CERT_REQUIRED
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        expired = authority.issue_cert("client.example", not_after=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        expired.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
        with serving(tls=server) as found, pytest.raises(TlsFailed) as raised:
            post(found.url, b" " * body_bytes, ca_file=tmp_path / "ca.pem", certificate=tmp_path / "client.pem")

        assert str(raised.value) == ("TLS handshake failed: the server refuses the client certificate: it has expired")


class TestFilesThatCannotBeUsed:
    """client_context() finds them before anything is sent."""

    def failure(self, **files: Path) -> CertificateUnusable:
        """The error for these files."""
        with pytest.raises(CertificateUnusable) as raised:
            client_context(**files)
        return raised.value

    def test_certificate_and_key_of_different_pairs(self, issued: Certificates) -> None:
        error = self.failure(certificate_file=issued.client, key_file=issued.untrusted_key)

        assert str(error) == f"the client certificate {issued.client} does not match the key {issued.untrusted_key}"
        assert error.remedy == "give a certificate and its own key, both PEM, the key without a passphrase"

    def test_certificate_without_a_key(self, issued: Certificates) -> None:
        """Without a key file, the key must be in the certificate's file."""
        error = self.failure(certificate_file=issued.client)

        assert str(error) == f"the client certificate {issued.client} cannot be used with the key inside it"

    @pytest.mark.parametrize("content", [b"", b"no certificate", b"\x30\x82\x01\x0a"], ids=["empty", "text", "DER"])
    def test_authority_that_is_not_pem(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "authority"
        file.write_bytes(content)

        assert str(self.failure(ca_file=file)) == f"{file} holds no certificates (PEM)"

    def test_files_that_are_missing(self, issued: Certificates, tmp_path: Path) -> None:
        """OpenSSL does not name them."""
        gone = tmp_path / "gone"

        assert str(self.failure(ca_file=gone)) == f"{gone} cannot be read: No such file or directory"
        assert str(self.failure(certificate_file=gone, key_file=issued.client_key)) == (
            f"the client certificate {gone} or its key {issued.client_key} cannot be read: No such file or directory"
        )

    def test_key_with_a_passphrase(self, issued: Certificates, tmp_path: Path) -> None:
        """A daemon has no terminal to type it on: OpenSSL must not prompt."""
        file = tmp_path / "key"
        file.write_bytes(_locked(issued.client_key))
        error = self.failure(certificate_file=issued.client, key_file=file)

        assert str(error) == f"the client certificate {issued.client} cannot be used with the key {file}"
        assert error.remedy.endswith("the key without a passphrase")


def _locked(key_file: Path) -> bytes:
    """The same key, encrypted."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"passphrase"),
    )
