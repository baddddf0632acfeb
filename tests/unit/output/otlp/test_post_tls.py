"""post: receivers that speak TLS, and certificates of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from exporter.errors import BadInput
from exporter.output.otlp.post import NotTrusted, Poster
from tests.support.certificates import Certificates
from tests.support.posting import (
    posted,
)
from tests.support.pushing import target
from tests.support.receiver import (
    receiver,
)


class TestTls:
    """Over HTTPS."""

    def refused_by(self, url: str, **settings: object) -> str:
        """Why one side did not trust the other."""
        with pytest.raises(NotTrusted) as raised:
            posted(url, **settings)
        return str(raised.value)

    def test_authority_of_the_file_is_trusted(self, issued: Certificates) -> None:
        """By address and by name."""
        with receiver(tls=issued.server_context()) as found:
            for url in (found.url, found.url.replace("127.0.0.1", "localhost")):
                assert posted(url, ca_file=issued.authority).status == 200

    def test_authorities_of_the_system_are_trusted_without_a_file(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SSL_CERT_FILE says to OpenSSL where they are."""
        monkeypatch.setenv("SSL_CERT_FILE", str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            assert posted(found.url).status == 200

    def test_the_file_stands_instead_of_the_system(self, issued: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
        """A public authority cannot speak for a receiver that has an authority of its own."""
        monkeypatch.setenv("SSL_CERT_FILE", str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            said = self.refused_by(found.url, ca_file=issued.other_authority)

        assert said == "its certificate cannot be trusted: unable to get local issuer certificate"

    @pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
    def test_variables_of_other_programs_have_no_effect(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        """They are no setting of this one."""
        monkeypatch.setenv(variable, str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            said = self.refused_by(found.url, ca_file=issued.other_authority)

        assert said == "its certificate cannot be trusted: unable to get local issuer certificate"

    def test_unknown_authority_gets_no_request(self, issued: Certificates) -> None:
        """No header, and so no token."""
        with receiver(tls=issued.server_context()) as found:
            self.refused_by(found.url, ca_file=issued.other_authority)

            assert found.requests == []

    def test_certificate_of_another_host_is_not_trusted(self, issued: Certificates) -> None:
        """The authority is the right one."""
        with receiver(tls=issued.server_context(is_wrong_host=True)) as found:
            said = self.refused_by(found.url, ca_file=issued.authority)

            assert said.startswith("its certificate cannot be trusted: IP address mismatch")
            assert found.requests == []

    def test_receiver_without_tls_is_not_trusted(self) -> None:
        """What it answers to the handshake is HTTP."""
        with receiver() as found:
            said = self.refused_by(found.url.replace("http", "https"))

        assert said.startswith("TLS failed: ")

    def test_client_certificate_is_shown(self, issued: Certificates) -> None:
        """To a receiver that wants one; in two files, or both in one."""
        both = {"client_certificate_file": issued.client, "client_key_file": issued.client_key}
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            assert posted(found.url, ca_file=issued.authority, **both).status == 200
            assert posted(found.url, ca_file=issued.authority, client_certificate_file=issued.server).status == 200

    def test_receiver_that_wants_a_certificate_trusts_no_one_without(self, issued: Certificates) -> None:
        """Nor one that shows a stranger's."""
        strangers = {"client_certificate_file": issued.stranger, "client_key_file": issued.stranger_key}
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            without = self.refused_by(found.url, ca_file=issued.authority)
            with_strangers = self.refused_by(found.url, ca_file=issued.authority, **strangers)

            assert without.startswith("TLS failed: ")
            assert with_strangers.startswith("TLS failed: ")
            assert found.requests == []


class TestCertificatesThatCannotBeUsed:
    """Found before anything is sent."""

    URL = "https://127.0.0.1:4318"

    def refused(self, **settings: object) -> BadInput:
        """What is said of them."""
        with pytest.raises(BadInput) as raised:
            Poster(target(self.URL, **settings))
        return raised.value

    def test_certificate_and_key_of_different_pairs(self, issued: Certificates) -> None:
        """Both are named."""
        error = self.refused(client_certificate_file=issued.client, client_key_file=issued.stranger_key)

        assert str(error) == (
            f"OTLP receiver default: the client certificate {issued.client} does not match the key {issued.stranger_key}"
        )
        assert error.remedy == "give a certificate and its own key, both PEM, the key without a passphrase"

    def test_certificate_without_a_key(self, issued: Certificates) -> None:
        """It may stand in the same file, and does not."""
        error = self.refused(client_certificate_file=issued.client)

        assert str(error) == (
            f"OTLP receiver default: the client certificate {issued.client} cannot be used with the key inside it"
        )

    @pytest.mark.parametrize("content", [b"", b"no certificate", b"\x30\x82\x01\x0a"], ids=["empty", "text", "DER"])
    def test_authority_that_is_no_pem(self, tmp_path: Path, content: bytes) -> None:
        """The file is named."""
        file = tmp_path / "authority"
        file.write_bytes(content)

        assert str(self.refused(ca_file=file)) == f"OTLP receiver default: {file} holds no certificates (PEM)"

    def test_key_with_a_passphrase(self, issued: Certificates, tmp_path: Path) -> None:
        """Nobody is asked for it: a daemon has no terminal."""
        file = tmp_path / "key"
        file.write_bytes(_locked(issued.client_key))
        error = self.refused(client_certificate_file=issued.client, client_key_file=file)

        assert str(error) == (
            f"OTLP receiver default: the client certificate {issued.client} cannot be used with the key {file}"
        )
        assert error.remedy.endswith("the key without a passphrase")

    def test_without_tls_they_are_not_looked_at(self, issued: Certificates) -> None:
        """A receiver of http has no use for them."""
        with receiver() as found:
            said = posted(found.url, client_certificate_file=issued.client, client_key_file=issued.stranger_key)

        assert said.status == 200


def _locked(key_file: Path) -> bytes:
    """The same key, encrypted."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"passphrase"),
    )
