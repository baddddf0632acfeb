"""web_file: the format of exporter-toolkit, valid and invalid."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from exporter.config import web_file
from exporter.config.web_file import ClientCertificate, RateLimit, WebConfig
from exporter.errors import BadInput

HASH = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
PAIR = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that a configuration names. Their content is not checked here."""
    for name in ("server.crt", "server.key", "ca.crt"):
        (tmp_path / name).write_text(f"the content of {name}")
    return tmp_path


def loaded(folder: Path, text: str) -> WebConfig:
    (folder / "web.yml").write_text(text)
    return web_file.load(folder / "web.yml")


def refused(folder: Path, text: str) -> str:
    """The error message."""
    with pytest.raises(BadInput) as raised:
        loaded(folder, text)
    return str(raised.value)


class TestTls:
    """tls_server_config."""

    @pytest.mark.parametrize("text", ["", "# nothing\n", "tls_server_config:\n", "tls_server_config: {}\n"])
    def test_no_tls_without_settings(self, folder: Path, text: str) -> None:
        assert loaded(folder, text) == WebConfig()

    def test_paths_are_relative_to_the_configuration_file(self, folder: Path) -> None:
        tls = loaded(folder, PAIR).tls

        assert tls is not None
        assert (tls.certificate, tls.key) == (b"the content of server.crt", b"the content of server.key")

    def test_absolute_paths_are_kept(self, folder: Path) -> None:
        tls = loaded(folder, PAIR.replace("server.crt", f"{folder}/ca.crt")).tls

        assert tls is not None
        assert tls.certificate == b"the content of ca.crt"

    def test_certificate_and_key_can_be_inline(self, folder: Path) -> None:
        tls = loaded(folder, "tls_server_config:\n  cert: |\n    one\n    two\n  key: three\n").tls

        assert tls is not None
        assert (tls.certificate, tls.key) == (b"one\ntwo\n", b"three")

    def test_repr_has_no_key(self, folder: Path) -> None:
        """Logs and tracebacks may contain it."""
        assert "server.key" not in repr(loaded(folder, PAIR))

    def test_default_versions_are_12_to_13(self, folder: Path) -> None:
        """Both bounds can be set."""
        usual, newest = loaded(folder, PAIR).tls, loaded(folder, PAIR + "  min_version: TLS13\n").tls

        assert usual is not None
        assert newest is not None
        assert (usual.min_version, usual.max_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
        assert newest.min_version is ssl.TLSVersion.TLSv1_3

    @pytest.mark.parametrize(
        ("auth_type", "wanted"),
        [
            ("RequestClientCert", ClientCertificate.NOT_REQUESTED),
            ("VerifyClientCertIfGiven", ClientCertificate.VERIFIED_IF_GIVEN),
            ("RequireAndVerifyClientCert", ClientCertificate.REQUIRED),
            ("RequireAnyClientCert", ClientCertificate.REQUIRED),
            ("RequireClientCert", ClientCertificate.REQUIRED),
        ],
    )
    def test_client_auth_types(self, folder: Path, auth_type: str, wanted: ClientCertificate) -> None:
        """Go's names. A certificate that Go would not verify is verified."""
        tls = loaded(folder, f"{PAIR}  client_auth_type: {auth_type}\n  client_ca_file: ca.crt\n").tls

        assert tls is not None
        assert tls.client_certificate is wanted
        assert tls.client_authorities == b"the content of ca.crt"

    def test_optional_client_certificate_needs_no_authority(self, folder: Path) -> None:
        """As in most examples of exporter-toolkit: the system's authorities verify it."""
        tls = loaded(folder, f"{PAIR}  client_auth_type: VerifyClientCertIfGiven\n").tls

        assert tls is not None
        assert tls.client_certificate is ClientCertificate.VERIFIED_IF_GIVEN
        assert tls.client_authorities == b""

    def test_ciphers_are_translated_to_openssl(self, folder: Path) -> None:
        """In the given order; those of TLS 1.3 are not configurable, as in Go."""
        suites = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        tls = loaded(folder, f"{PAIR}  cipher_suites: [{suites}]\n").tls

        assert tls is not None
        assert tls.ciphers == ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256")

    def test_ciphers_without_those_of_http2_need_http2_off(self, folder: Path) -> None:
        """http2: false."""
        text = f"{PAIR}  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]\nhttp_server_config:\n  http2: false\n"
        tls = loaded(folder, text).tls

        assert tls is not None
        assert tls.ciphers == ("ECDHE-RSA-AES128-SHA",)

    @pytest.mark.parametrize(
        ("curves", "wanted"),
        [
            ("CurveP521", "secp521r1"),
            ("CurveP256, CurveP384, CurveP521, X25519", None),
            ("CurveP256, CurveP384, CurveP521, X25519, X25519MLKEM768", None),
        ],
    )
    def test_one_curve_or_all(self, folder: Path, curves: str, wanted: str | None) -> None:
        """Python's ssl can be restricted to one curve only."""
        tls = loaded(folder, f"{PAIR}  curve_preferences: [{curves}]\n").tls

        assert tls is not None
        assert tls.curve == wanted


class TestOthers:
    """Users, headers, rate limit."""

    def test_users(self, folder: Path) -> None:
        assert loaded(folder, f"basic_auth_users:\n  alice: {HASH}\n").users == {"alice": HASH}

    def test_repr_has_no_hashes(self, folder: Path) -> None:
        """Logs and tracebacks may contain it."""
        assert "$2y$" not in repr(loaded(folder, f"basic_auth_users:\n  alice: {HASH}\n"))

    def test_headers(self, folder: Path) -> None:
        """An empty header is not sent."""
        text = 'http_server_config:\n  headers:\n    X-Frame-Options: deny\n    Content-Security-Policy: ""\n'

        assert loaded(folder, text).headers == (("X-Frame-Options", "deny"),)

    def test_header_can_be_a_number(self, folder: Path) -> None:
        """Without quotes."""
        text = "http_server_config:\n  headers:\n    X-XSS-Protection: 1\n"

        assert loaded(folder, text).headers == (("X-XSS-Protection", "1"),)

    @pytest.mark.parametrize(
        ("interval", "seconds"), [("1s", 1.0), ("200ms", 0.2), ("1m30s", 90.0), ("1.5h", 5400.0), ("10us", 1e-5)]
    )
    def test_rate_limit(self, folder: Path, interval: str, seconds: float) -> None:
        """Durations in the notation of Go."""
        limit = loaded(folder, f"rate_limit:\n  interval: {interval}\n  burst: 20\n").rate_limit

        assert limit == RateLimit(pytest.approx(seconds), 20)

    @pytest.mark.parametrize("interval", ["0", '"0"', "0s"])
    def test_interval_of_zero_disables_the_rate_limit(self, folder: Path, interval: str) -> None:
        assert loaded(folder, f"rate_limit:\n  interval: {interval}\n  burst: 5\n").rate_limit is None


def tls(*lines: str) -> str:
    """A TLS section with certificate, key and these lines."""
    return PAIR + "".join(f"  {line}\n" for line in lines)


class TestRefused:
    """One line with the file, the key and what is wanted."""

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("hallo\n", "it must be a mapping"),
            ("- 1\n", "it must be a mapping"),
            ("a: {\n", "expected the node content, but found '<stream end>' (line 2)"),
            ("a: b: c\n", "mapping values are not allowed here (line 1)"),
            ("\ttabs: 1\n", "found character '\\t' that cannot start any token (line 1)"),
            ("!!python/object/apply:os.system [id]\n", "could not determine a constructor for the tag"),
            ("tls_server_config: {}\ntls_server_config: {}\n", "the key 'tls_server_config' is a duplicate (line 2)"),
            ("yes: 1\n", "the key True is not a string (line 1)"),
            ("tls_config: {}\n", "unknown key 'tls_config'"),
            ("tls_server_config: text\n", "tls_server_config: it must be a mapping"),
            (tls("cert_fil: x"), "tls_server_config: unknown key 'cert_fil'"),
            ("tls_server_config:\n  key_file: server.key\n", "cert or cert_file is required"),
            ('tls_server_config:\n  cert_file: ""\n  key_file: server.key\n', "cert or cert_file is required"),
            ('tls_server_config:\n  cert: ""\n  key: x\n', "cert or cert_file is required"),
            ("tls_server_config:\n  cert_file: server.crt\n", "key or key_file is required"),
            ('tls_server_config:\n  cert: x\n  key: ""\n', "key or key_file is required"),
            ('tls_server_config:\n  cert_file: ""\n  key_file: ""\n', "cert or cert_file is required"),
            ("tls_server_config:\n  min_version: TLS13\n", "cert or cert_file is required"),
            (PAIR.replace("server.crt", "absent"), "cert_file: cannot read {folder}/absent: No such file or directory"),
            (PAIR.replace("server.key", "absent"), "key_file: cannot read {folder}/absent: No such file or directory"),
            (PAIR.replace("server.key", "."), "key_file: cannot read {folder}: not a regular file"),
            (tls("cert: x"), "cert and cert_file cannot be combined"),
            (tls("client_ca_file: ca.crt"), "client_ca has no effect without a client_auth_type"),
            (tls("client_auth_type: RequireAndVerifyClientCert"), "needs a client_ca_file"),
            (tls("client_auth_type: RequireAnyClientCert"), "without it, any certificate would be accepted"),
            (tls("client_auth_type: Maybe"), "unknown client_auth_type 'Maybe'"),
            (
                tls("client_auth_type: RequireAndVerifyClientCert", "client_ca_file: absent"),
                "client_ca_file: cannot read {folder}/absent: No such file or directory",
            ),
            (tls("client_allowed_sans: [a]"), "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert"),
            (
                tls("client_allowed_sans: [a]", "client_auth_type: VerifyClientCertIfGiven", "client_ca_file: ca.crt"),
                "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert",
            ),
            (tls("min_version: TLS111"), "unknown TLS version 'TLS111': want one of TLS13, TLS12, TLS11, TLS10"),
            (tls("min_version: TLS13", "max_version: TLS12"), "min_version is above max_version"),
            (tls("cipher_suites: [TLS_INVENTED]"), "unknown cipher 'TLS_INVENTED'"),
            (tls("cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA]"), "which HTTP/2 needs"),
            (tls("cipher_suites: TLS_AES_128_GCM_SHA256"), "cipher_suites must be a list"),
            (tls("curve_preferences: [CurveP999]"), "unknown curve 'CurveP999'"),
            (tls("curve_preferences: [CurveP256, X25519]"), "must name one curve or all of them"),
            (tls("prefer_server_cipher_suites: 1"), "prefer_server_cipher_suites must be true or false"),
            (tls("client_auth_type: 1"), "client_auth_type must be a string"),
            ("http_server_config:\n  http2: maybe\n", "http_server_config: http2 must be true or false"),
            ("http_server_config:\n  http3: true\n", "http_server_config: unknown key 'http3'"),
            ("http_server_config:\n  headers:\n    Server: me\n", "headers: 'Server' cannot be set"),
            ("http_server_config:\n  headers:\n    X-XSS-Protection: true\n", "X-XSS-Protection must be a string"),
            ("http_server_config:\n  headers:\n    X-Frame-Options: all\n", "must be deny or sameorigin, not 'all'"),
            ("http_server_config:\n  headers:\n    X-Content-Type-Options: sniff\n", "must be nosniff, not 'sniff'"),
            (
                'http_server_config:\n  headers:\n    Content-Security-Policy: "a\\r\\nB: c"\n',
                "Content-Security-Policy must be printable ASCII",
            ),
            ("basic_auth_users:\n  alice: secret\n", "the password of 'alice' is not a bcrypt hash"),
            ("basic_auth_users:\n  alice: 1234\n", "basic_auth_users: alice must be a string"),
            (f"basic_auth_users:\n  'a:b': {HASH}\n", "invalid user name 'a:b'"),
            (f"basic_auth_users:\n  '': {HASH}\n", "invalid user name ''"),
            (f"basic_auth_users: [{HASH}]\n", "basic_auth_users: it must be a mapping"),
            ("rate_limit:\n  interval: 1s\n", "burst must be at least 1"),
            ("rate_limit:\n  interval: 1\n  burst: 1\n", "interval must be a duration such as 1s or 200ms"),
            ("rate_limit:\n  interval: -1s\n  burst: 1\n", "interval must be a duration such as 1s or 200ms"),
            ("rate_limit:\n  interval: 1s\n  burst: many\n", "burst must be a whole number"),
            ("rate_limit:\n  interval: 1s\n  burst: true\n", "burst must be a whole number"),
            ("a: &a [*a]\nb: *c\n", "found undefined alias 'c'"),
            ("[" * 100_000, "not YAML"),
            ("a: !!bool foo\n", "not YAML"),
            ("a: !!timestamp foo\n", "not YAML"),
            ("rate_limit:\n  interval: 1s\n  burst: 1" + "0" * 400 + "\n", "burst must be at most 1000000"),
            (
                f"basic_auth_users:\n  alice: {HASH.replace('$2y$', '$2$')}\n",
                "the password of 'alice' is not a bcrypt hash",
            ),
        ],
    )
    def test_invalid_text(self, folder: Path, text: str, said: str) -> None:
        """Includes every invalid example of exporter-toolkit."""
        line = refused(folder, text)

        assert line.startswith(f"--web.config.file: {folder}/web.yml: ")
        assert said.replace("{folder}", str(folder)) in line

    def test_password_is_not_repeated(self, folder: Path) -> None:
        """A user may have written the password instead of its hash."""
        assert "hunter2" not in refused(folder, "basic_auth_users:\n  alice: hunter2\n")

    def test_missing_file(self, folder: Path) -> None:
        with pytest.raises(BadInput, match=r"absent\.yml: cannot read it: No such file or directory"):
            web_file.load(folder / "absent.yml")

    def test_other_kinds_of_files(self, folder: Path) -> None:
        """A directory, or a pipe without a writer."""
        with pytest.raises(BadInput, match="cannot read it: not a regular file"):
            web_file.load(folder)

    def test_other_encoding_than_utf_8(self, folder: Path) -> None:
        (folder / "web.yml").write_bytes(b"\xff\xfe")
        with pytest.raises(BadInput, match="not UTF-8"):
            web_file.load(folder / "web.yml")

    def test_large_file(self, folder: Path) -> None:
        with pytest.raises(BadInput, match="larger than 1048576 bytes"):
            loaded(folder, "#" * (1 << 20) + "\n")
