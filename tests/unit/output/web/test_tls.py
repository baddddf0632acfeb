"""web.tls: contexts of the configuration, tried with clients in memory."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from exporter.config.web_file import ClientCertificate, Tls
from exporter.errors import BadInput
from exporter.output.web import tls
from exporter.output.web.tls import certificate_state, context_of, is_allowed

AUTHORITY, STRANGER = trustme.CA(), trustme.CA()
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def of_pair(pair: trustme.LeafCert) -> Tls:
    """A server without requirements for clients."""
    return Tls(
        certificate=b"".join(one.bytes() for one in pair.cert_chain_pems),
        key=pair.private_key_pem.bytes(),
        client_authorities=b"",
        client_certificate=ClientCertificate.NOT_REQUESTED,
        allowed_names=(),
        min_version=ssl.TLSVersion.TLSv1_2,
        max_version=ssl.TLSVersion.TLSv1_3,
        ciphers=None,
        prefers_server_ciphers=True,
        curve=None,
    )


SERVER = of_pair(AUTHORITY.issue_cert("localhost"))


def client() -> ssl.SSLContext:
    """A client that trusts the authority."""
    context = ssl.create_default_context()
    context.check_hostname = False
    AUTHORITY.configure_trust(context)
    return context


def spoken(server: Tls, client_context: ssl.SSLContext) -> tuple[str | None, str]:
    """TLS version and cipher that both sides agree on. Raises ssl.SSLError when they do not."""
    ends = tls.shake_hands(context_of(server), client_context)
    cipher = ends[0].cipher()
    assert cipher is not None
    return ends[0].version(), cipher[0]


class TestContext:
    """Version, cipher and curve of a handshake."""

    def test_newest_version_is_the_default(self) -> None:
        """TLS 1.3."""
        assert spoken(SERVER, client())[0] == "TLSv1.3"

    def test_max_version(self) -> None:
        """Both bounds hold."""
        assert spoken(replace(SERVER, max_version=ssl.TLSVersion.TLSv1_2), client())[0] == "TLSv1.2"

    def test_min_version_refuses_an_old_client(self) -> None:
        """With a protocol error."""
        old = client()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match=r"(?i)unsupported.protocol|no.protocols|alert.protocol.version"):
            spoken(replace(SERVER, min_version=ssl.TLSVersion.TLSv1_3), old)

    def test_ciphers(self) -> None:
        """For TLS 1.2, in the server's order by default."""
        names = ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256")
        if "BEGIN RSA" in SERVER.key.decode():
            names = ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256")
        server = replace(SERVER, max_version=ssl.TLSVersion.TLSv1_2, ciphers=names)
        other_way = client()
        other_way.set_ciphers(":".join(reversed(names)))

        assert spoken(server, other_way)[1] == names[0]
        assert spoken(replace(server, prefers_server_ciphers=False), other_way)[1] == names[1]

    def test_only_ciphers_of_13_mean_only_13(self) -> None:
        """No cipher is left for TLS 1.2."""
        old = client()
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            spoken(replace(SERVER, ciphers=()), old)

    def test_curve(self) -> None:
        """A client with another curve only is refused."""
        other = client()
        other.set_ecdh_curve("secp384r1")
        server = replace(SERVER, curve="secp521r1")

        assert spoken(server, client())
        with pytest.raises(ssl.SSLError):
            spoken(server, other)


class TestClients:
    """Their certificates."""

    @pytest.fixture
    def server(self) -> Tls:
        """Wants one of the authority."""
        return replace(
            SERVER,
            client_authorities=AUTHORITY.cert_pem.bytes(),
            client_certificate=ClientCertificate.REQUIRED,
            max_version=ssl.TLSVersion.TLSv1_2,  # in which a refusal comes before the handshake ends
        )

    def test_client_of_the_authority_is_accepted(self, server: Tls) -> None:
        """Signed by the authority."""
        known = client()
        AUTHORITY.issue_cert("scraper.example").configure_cert(known)

        assert spoken(server, known)

    @pytest.mark.parametrize("is_stranger", [True, False], ids=["another authority's", "none"])
    def test_unknown_client_is_refused(self, server: Tls, is_stranger: bool) -> None:
        """With a certificate of another authority, or none."""
        unknown = client()
        if is_stranger:
            STRANGER.issue_cert("scraper.example").configure_cert(unknown)
        with pytest.raises(ssl.SSLError):
            spoken(server, unknown)

    def test_expired_certificate_is_refused(self, server: Tls) -> None:
        """Though the authority has signed it."""
        expired = client()
        AUTHORITY.issue_cert("scraper.example", not_after=LONG_AGO).configure_cert(expired)
        with pytest.raises(ssl.SSLError, match="expired"):
            spoken(server, expired)

    def test_certificate_may_be_optional(self, server: Tls) -> None:
        """VerifyClientCertIfGiven; a given one must be valid."""
        asked = replace(server, client_certificate=ClientCertificate.VERIFIED_IF_GIVEN)
        stranger = client()
        STRANGER.issue_cert("scraper.example").configure_cert(stranger)

        assert spoken(asked, client())
        with pytest.raises(ssl.SSLError):
            spoken(asked, stranger)

    def test_authorities_of_the_system_are_the_default(
        self, server: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """For an optional certificate; here the system trusts this authority only."""
        (tmp_path / "ca.crt").write_bytes(AUTHORITY.cert_pem.bytes())
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
        asked = replace(server, client_authorities=b"", client_certificate=ClientCertificate.VERIFIED_IF_GIVEN)
        known, stranger = client(), client()
        AUTHORITY.issue_cert("scraper.example").configure_cert(known)
        STRANGER.issue_cert("scraper.example").configure_cert(stranger)

        assert spoken(asked, known)
        assert spoken(asked, client())
        with pytest.raises(ssl.SSLError):
            spoken(asked, stranger)

    @pytest.mark.parametrize(
        ("name", "is_in"),
        [
            (("DNS", "scraper.example"), True),
            (("DNS", "other.example"), False),
            (("email", "sre@example.com"), True),
            (("URI", "spiffe://example/scraper"), True),
            (("IP Address", "10.0.0.1"), True),
            (("IP Address", "0:0:0:0:0:0:0:1\n"), True),
            (("IP Address", "10.0.0.2"), False),
        ],
    )
    def test_allowed_names(self, name: tuple[str, str], is_in: bool) -> None:
        """Names of every kind, compared exactly."""
        allowed = ("scraper.example", "sre@example.com", "spiffe://example/scraper", "10.0.0.1", "::1")
        server = replace(SERVER, allowed_names=allowed)

        assert is_allowed(server, {"subjectAltName": (("DNS", "x.example"), name)}) is is_in

    def test_client_without_a_certificate_is_refused_if_names_are_required(self) -> None:
        """Without required names, it is accepted."""
        assert not is_allowed(replace(SERVER, allowed_names=("a",)), None)
        assert is_allowed(SERVER, None)


class TestRefused:
    """Unusable settings are found before a client connects."""

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"certificate": b"no PEM"}, "cert and key cannot be used"),
            ({"key": b"no PEM"}, "cert and key cannot be used"),
            ({"key": STRANGER.issue_cert("a").private_key_pem.bytes()}, "key values mismatch"),
            ({"client_authorities": b"no PEM"}, "client_ca cannot be used: .*does not contain a certificate$"),
            ({"client_authorities": b"\xff"}, "client_ca cannot be used"),
        ],
        ids=["certificate", "key", "another key", "authority", "bytes"],
    )
    def test_pem(self, changed: dict[str, bytes], reason: str) -> None:
        """In one line."""
        with pytest.raises(BadInput, match=f"--web.config.file: tls_server_config: .*{reason}"):
            context_of(replace(SERVER, **changed))  # type: ignore[arg-type]

    def test_encrypted_key(self, tmp_path: Path) -> None:
        """A daemon cannot prompt for a password."""
        from cryptography.hazmat.primitives import serialization

        key = serialization.load_pem_private_key(SERVER.key, None)
        encrypted = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        with pytest.raises(BadInput, match="the key is encrypted"):
            context_of(replace(SERVER, key=encrypted))


class TestObjection:
    """Why clients will refuse the server's certificate."""

    def test_none(self) -> None:
        """For a valid one."""
        assert certificate_state(SERVER).problem is None

    def test_expired(self) -> None:
        """It is still served: the client decides."""
        expired = of_pair(AUTHORITY.issue_cert("localhost", not_after=LONG_AGO))

        assert certificate_state(expired).problem == "certificate has expired"

    def test_end(self) -> None:
        """For a valid one, in Unix time."""
        end = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)

        assert certificate_state(of_pair(AUTHORITY.issue_cert("localhost", not_after=end))).expires_at == 4070908800

    def test_handshake_that_cannot_succeed(self) -> None:
        """The ciphers need another kind of key."""
        wrong = ("ECDHE-RSA-AES128-GCM-SHA256",) if b"EC PRIVATE" in SERVER.key else ("ECDHE-ECDSA-AES128-GCM-SHA256",)
        with pytest.raises(BadInput, match=r"cert cannot be used: .*no shared cipher"):
            certificate_state(replace(SERVER, ciphers=wrong, max_version=ssl.TLSVersion.TLSv1_2))
