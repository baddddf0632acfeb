"""http_client.tls: servers with TLS, and certificates of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from exporter.http_client.errors import CertificateUnusable, TlsFailed
from exporter.http_client.tls import client_context
from tests.support.certificates import Certificates
from tests.support.http_requests import post
from tests.support.receiver import receiver


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

        assert said == "certificate not trusted: unable to get local issuer certificate"

    @pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
    def test_variables_of_other_programs_have_no_effect(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        """The library requests reads them."""
        monkeypatch.setenv(variable, str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            said = self.failure(found.url, ca_file=issued.other_authority)

        assert said == "certificate not trusted: unable to get local issuer certificate"

    def test_server_of_an_unknown_authority_receives_no_request(self, issued: Certificates) -> None:
        """No header either, and so no token."""
        with receiver(tls=issued.server_context()) as found:
            self.failure(found.url, ca_file=issued.other_authority)

            assert found.requests == []

    def test_certificate_of_another_host_is_not_trusted(self, issued: Certificates) -> None:
        with receiver(tls=issued.server_context(is_wrong_host=True)) as found:
            said = self.failure(found.url, ca_file=issued.authority)

            assert said.startswith("certificate not trusted: IP address mismatch")
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

            assert without.startswith("TLS handshake failed: ")
            assert with_other.startswith("TLS handshake failed: ")
            assert found.requests == []


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
