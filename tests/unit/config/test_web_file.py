"""config.web: the web configuration file, in all the forms that exporter-toolkit takes, and in those that it refuses."""

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
    """With the files that a configuration may name; what they hold is not looked at here."""
    for name in ("server.crt", "server.key", "ca.crt"):
        (tmp_path / name).write_text(f"the content of {name}")
    return tmp_path


def loaded(folder: Path, text: str) -> WebConfig:
    """The configuration of a text."""
    (folder / "web.yml").write_text(text)
    return web_file.load(folder / "web.yml")


def refused(folder: Path, text: str) -> str:
    """The one line with which a text is refused."""
    with pytest.raises(BadInput) as raised:
        loaded(folder, text)
    return str(raised.value)


class TestTls:
    """tls_server_config."""

    @pytest.mark.parametrize("text", ["", "# nothing\n", "tls_server_config:\n", "tls_server_config: {}\n"])
    def test_no_tls_where_nothing_is_said(self, folder: Path, text: str) -> None:
        """An empty file is one as well."""
        assert loaded(folder, text) == WebConfig()

    def test_files_are_seen_from_the_files_own_directory(self, folder: Path) -> None:
        """Not from the one the exporter was started in."""
        tls = loaded(folder, PAIR).tls

        assert tls is not None
        assert (tls.certificate, tls.key) == (b"the content of server.crt", b"the content of server.key")

    def test_absolute_paths_are_taken_as_they_are(self, folder: Path) -> None:
        """As Kubernetes mounts them."""
        tls = loaded(folder, PAIR.replace("server.crt", f"{folder}/ca.crt")).tls

        assert tls is not None
        assert tls.certificate == b"the content of ca.crt"

    def test_certificate_and_key_may_stand_in_the_file(self, folder: Path) -> None:
        """Inline."""
        tls = loaded(folder, "tls_server_config:\n  cert: |\n    one\n    two\n  key: three\n").tls

        assert tls is not None
        assert (tls.certificate, tls.key) == (b"one\ntwo\n", b"three")

    def test_key_is_not_shown(self, folder: Path) -> None:
        """Neither in a log nor in a traceback."""
        assert "server.key" not in repr(loaded(folder, PAIR))

    def test_versions_are_12_to_13_unless_told(self, folder: Path) -> None:
        """Both bounds can be told."""
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
    def test_clients_certificate(self, folder: Path, auth_type: str, wanted: ClientCertificate) -> None:
        """By the names of Go; one that would go unverified is verified."""
        tls = loaded(folder, f"{PAIR}  client_auth_type: {auth_type}\n  client_ca_file: ca.crt\n").tls

        assert tls is not None
        assert tls.client_certificate is wanted
        assert tls.client_authorities == b"the content of ca.crt"

    def test_clients_certificate_that_may_be_left_out_needs_no_authority(self, folder: Path) -> None:
        """As in most of exporter-toolkit's own examples: one that is shown is verified by the system's."""
        tls = loaded(folder, f"{PAIR}  client_auth_type: VerifyClientCertIfGiven\n").tls

        assert tls is not None
        assert tls.client_certificate is ClientCertificate.VERIFIED_IF_GIVEN
        assert tls.client_authorities == b""

    def test_ciphers_have_openssls_names_then(self, folder: Path) -> None:
        """In the order given; those of TLS 1.3 are not chosen, as in Go."""
        suites = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        tls = loaded(folder, f"{PAIR}  cipher_suites: [{suites}]\n").tls

        assert tls is not None
        assert tls.ciphers == ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256")

    def test_cipher_that_http2_lacks_is_taken_without_http2(self, folder: Path) -> None:
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
        """Python's ssl can be told one."""
        tls = loaded(folder, f"{PAIR}  curve_preferences: [{curves}]\n").tls

        assert tls is not None
        assert tls.curve == wanted


class TestOthers:
    """Users, headers, rate limit."""

    def test_users(self, folder: Path) -> None:
        """Name and hash."""
        assert loaded(folder, f"basic_auth_users:\n  alice: {HASH}\n").users == {"alice": HASH}

    def test_hashes_are_not_shown(self, folder: Path) -> None:
        """Neither in a log nor in a traceback."""
        assert "$2y$" not in repr(loaded(folder, f"basic_auth_users:\n  alice: {HASH}\n"))

    def test_headers(self, folder: Path) -> None:
        """A blank one is not sent."""
        text = 'http_server_config:\n  headers:\n    X-Frame-Options: deny\n    Content-Security-Policy: ""\n'

        assert loaded(folder, text).headers == (("X-Frame-Options", "deny"),)

    def test_number_is_a_value_of_a_header(self, folder: Path) -> None:
        """Without quotes, as people write it."""
        text = "http_server_config:\n  headers:\n    X-XSS-Protection: 1\n"

        assert loaded(folder, text).headers == (("X-XSS-Protection", "1"),)

    @pytest.mark.parametrize(
        ("interval", "seconds"), [("1s", 1.0), ("200ms", 0.2), ("1m30s", 90.0), ("1.5h", 5400.0), ("10us", 1e-5)]
    )
    def test_rate_limit(self, folder: Path, interval: str, seconds: float) -> None:
        """Durations are Go's."""
        limit = loaded(folder, f"rate_limit:\n  interval: {interval}\n  burst: 20\n").rate_limit

        assert limit == RateLimit(pytest.approx(seconds), 20)

    @pytest.mark.parametrize("interval", ["0", '"0"', "0s"])
    def test_no_rate_limit_at_an_interval_of_zero(self, folder: Path, interval: str) -> None:
        """Whatever the burst."""
        assert loaded(folder, f"rate_limit:\n  interval: {interval}\n  burst: 5\n").rate_limit is None


def tls(*lines: str) -> str:
    """A section with these lines, and a pair."""
    return PAIR + "".join(f"  {line}\n" for line in lines)


class TestRefused:
    """One line, which names the file, the key and what is wanted."""

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
    def test_text(self, folder: Path, text: str, said: str) -> None:
        """Every malformed form of exporter-toolkit's own examples is among them."""
        line = refused(folder, text)

        assert line.startswith(f"--web.config.file: {folder}/web.yml: ")
        assert said.replace("{folder}", str(folder)) in line

    def test_password_is_not_repeated(self, folder: Path) -> None:
        """What was to be a hash may be the password itself."""
        assert "hunter2" not in refused(folder, "basic_auth_users:\n  alice: hunter2\n")

    def test_file_that_is_not_there(self, folder: Path) -> None:
        """By its path."""
        with pytest.raises(BadInput, match=r"absent\.yml: cannot read it: No such file or directory"):
            web_file.load(folder / "absent.yml")

    def test_file_that_is_none(self, folder: Path) -> None:
        """A directory, or a pipe that nobody writes to."""
        with pytest.raises(BadInput, match="cannot read it: not a regular file"):
            web_file.load(folder)

    def test_bytes_that_are_no_text(self, folder: Path) -> None:
        """UTF-8 is wanted."""
        (folder / "web.yml").write_bytes(b"\xff\xfe")
        with pytest.raises(BadInput, match="not UTF-8"):
            web_file.load(folder / "web.yml")

    def test_file_that_is_too_large(self, folder: Path) -> None:
        """Nobody has a megabyte of users."""
        with pytest.raises(BadInput, match="larger than 1048576 bytes"):
            loaded(folder, "#" * (1 << 20) + "\n")
