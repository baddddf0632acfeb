"""web.access: access over the loopback interface, while the file changes."""

from __future__ import annotations

import base64
import datetime
import http.client
import logging
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import bcrypt
import pytest
import trustme

from exporter import catalog
from exporter.errors import BadInput
from exporter.output.web import access
from exporter.output.web.access import AccessControl
from exporter.output.web.pages import Pages
from exporter.own_metrics.store import OwnMetrics
from tests.support.patience import PATIENCE_SECONDS
from tests.support.records import point, snapshot_of
from tests.support.traced import eventually
from tests.support.web_server import get, serving

SNAPSHOT = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
AUTHORITY = trustme.CA()


def pages() -> Pages:
    """Pages of one series."""
    return Pages(lambda: SNAPSHOT, OwnMetrics(), lambda: True)


def hashed(password: str, cost: int = 4) -> str:
    """A bcrypt hash of the lowest cost."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def basic(name: str, password: str) -> str:
    """What a client sends."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def client(authority: trustme.CA = AUTHORITY) -> ssl.SSLContext:
    """Trusts an authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration file, empty so far."""
    path = tmp_path / "web.yml"
    path.touch()
    return path


def put_pair(folder: Path, authority: trustme.CA = AUTHORITY, not_after: datetime.datetime | None = None) -> str:
    """Key and certificate for 127.0.0.1 beside the file; returns the section that names them."""
    pair = authority.issue_cert("127.0.0.1", not_after=not_after)
    (folder / "server.crt").write_bytes(b"".join(one.bytes() for one in pair.cert_chain_pems))
    (folder / "server.key").write_bytes(pair.private_key_pem.bytes())
    return "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"


def soon() -> datetime.datetime:
    """A time in two to three seconds: certificates have whole ones."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(seconds=3)


def await_time(time_of_day: datetime.datetime) -> None:
    """Wait until it is past."""
    eventually(lambda: datetime.datetime.now(datetime.UTC) > time_of_day, f"it is {time_of_day}")


@contextmanager
def connected_over_tls(
    address: tuple[str, int], context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> Iterator[ssl.SSLSocket]:
    """A connection after its handshake."""
    with (
        socket.create_connection(address, timeout=PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as encrypted,
    ):
        yield encrypted


def answer(connection: ssl.SSLSocket) -> bytes:
    """The response to a request; nothing when the server has closed."""
    with suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b""))
    return b""


class TestUsers:
    """basic_auth_users."""

    def test_password_is_required(self, file: Path) -> None:
        """On every page, with the header that makes a browser prompt for it."""
        file.write_text(f"basic_auth_users:\n  alice: {hashed('p')}\n")
        with serving(pages(), config_file=file) as address:
            without = [get(address, path) for path in ("/metrics", "/", "/healthz", "/readyz", "/x")]
            wrong = get(address, Authorization=basic("alice", "q"))
            right = get(address, Authorization=basic("alice", "p"))

        assert [(one.status, one.headers["WWW-Authenticate"]) for one in without] == [(401, "Basic")] * 5
        assert (wrong.status, right.status) == (401, 200)

    def test_health_can_be_left_open(self, file: Path) -> None:
        """--web.open-health, for the probes of Kubernetes."""
        file.write_text(f"basic_auth_users:\n  alice: {hashed('p')}\n")
        with serving(pages(), config_file=file, is_health_open=True) as address:
            assert [get(address, path).status for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]

    def test_changed_password_is_used_from_the_next_request_on(self, file: Path) -> None:
        """The old one is refused."""
        file.write_text(f"basic_auth_users:\n  alice: {hashed('old')}\n")
        with serving(pages(), config_file=file) as address:
            assert get(address, Authorization=basic("alice", "old")).status == 200
            file.write_text(f"basic_auth_users:\n  alice: {hashed('new')}\n")

            assert get(address, Authorization=basic("alice", "old")).status == 401
            assert get(address, Authorization=basic("alice", "new")).status == 200

    def test_wrong_passwords_do_not_lock_out_a_known_user(self, file: Path) -> None:
        """300 clients, each with another wrong password; nor does a change of the file without a change of its users."""
        text = f"basic_auth_users:\n  alice: {hashed('p', 10)}\n"
        file.write_text(text)
        with serving(pages(), config_file=file, max_connections=256) as address, ExitStack() as guessers:
            assert get(address, Authorization=basic("alice", "p")).status == 200
            for number in range(300):
                guesser = guessers.enter_context(socket.create_connection(address))
                guess = f"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: {basic('alice', str(number))}\r\n\r\n"
                guesser.sendall(guess.encode())
            file.write_text(text + "# changed\n")

            assert get(address, Authorization=basic("alice", "p")).status == 200

    def test_two_passwords_of_an_address_may_wait(self, file: Path) -> None:
        """The third gets 503, and its connection is closed."""
        file.write_text(f"basic_auth_users:\n  alice: {hashed('p', 12)}\n")
        with serving(pages(), config_file=file) as address, ThreadPoolExecutor(8) as clients:
            guesses = [clients.submit(get, address, Authorization=basic("alice", str(number))) for number in range(8)]
            answers = [guess.result() for guess in guesses]

        assert {answer.status for answer in answers} == {401, 503}
        assert {answer.headers["Connection"] for answer in answers} == {"close"}

    def test_wrong_passwords_of_one_user_from_many_addresses_do_not_keep_others_out(self, file: Path) -> None:
        """Any program on the machine has all addresses of the loopback interface. Here user 1000 has those but the first."""

        def user_of(client: tuple[str, int], _server: tuple[str, int]) -> int:
            return 110 if client[0] == "127.0.0.1" else 1000

        file.write_text(f"basic_auth_users:\n  alice: {hashed('p', 12)}\n")
        with serving(pages(), config_file=file, user_of=user_of) as address, ExitStack() as guessers:
            for number in range(40):
                source = (f"127.0.0.{2 + number % 20}", 0)
                guesser = guessers.enter_context(socket.create_connection(address, source_address=source))
                guess = f"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: {basic('alice', str(number))}\r\n\r\n"
                guesser.sendall(guess.encode())

            assert get(address, Authorization=basic("alice", "p")).status == 200


class TestOthers:
    """Headers, rate limit."""

    def test_headers_are_on_every_answer(self, file: Path) -> None:
        """Refusals included."""
        file.write_text(
            f"http_server_config:\n  headers:\n    X-Frame-Options: deny\nbasic_auth_users:\n  alice: {hashed('p')}\n"
        )
        with serving(pages(), config_file=file) as address:
            answers = get(address), get(address, Authorization=basic("alice", "p"))

        assert [(one.status, one.headers["X-Frame-Options"]) for one in answers] == [(401, "deny"), (200, "deny")]

    def test_rate_limit(self, file: Path) -> None:
        """Two at once, and then one an hour."""
        file.write_text("rate_limit:\n  interval: 1h\n  burst: 2\n")
        with serving(pages(), config_file=file) as address:
            assert [get(address).status for _ in range(3)] == [200, 200, 429]

    def test_health_that_is_open_is_not_counted(self, file: Path) -> None:
        """A probe takes no token from the scrapes."""
        file.write_text("rate_limit:\n  interval: 1h\n  burst: 1\n")
        with serving(pages(), config_file=file, is_health_open=True) as address:
            assert [get(address, "/healthz").status for _ in range(3)] == [200] * 3
            assert get(address).status == 200


class TestTls:
    """tls_server_config."""

    def test_scrape_over_tls(self, file: Path) -> None:
        """With a client that trusts the authority."""
        file.write_text(put_pair(file.parent))
        with serving(pages(), config_file=file) as address:
            assert get(address, context=client()).status == 200

    def test_plain_request_is_not_answered(self, file: Path) -> None:
        """The next one over TLS is."""
        file.write_text(put_pair(file.parent))
        with serving(pages(), config_file=file) as address:
            with pytest.raises(OSError, match=r"closed connection|reset|aborted"):
                get(address)
            assert get(address, context=client()).status == 200

    def test_new_certificate_is_used_from_the_next_connection_on(self, file: Path) -> None:
        """Here of another authority, under the same names."""
        file.write_text(put_pair(file.parent))
        other = trustme.CA()
        with serving(pages(), config_file=file) as address:
            assert get(address, context=client()).status == 200
            put_pair(file.parent, other)

            assert get(address, context=client(other)).status == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                get(address, context=client())

    def test_plain_connection_ends_when_tls_is_switched_on(self, file: Path) -> None:
        """A connected client would stay unencrypted for ever."""
        with serving(pages(), config_file=file) as address:
            connection = http.client.HTTPConnection(*address, timeout=PATIENCE_SECONDS)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
            file.write_text(put_pair(file.parent))
            connection.request("GET", "/healthz")
            with pytest.raises(http.client.RemoteDisconnected):
                connection.getresponse()
            connection.close()

    def test_client_certificate(self, file: Path) -> None:
        """It must be of the authority and have an allowed name."""
        (file.parent / "ca.crt").write_bytes(AUTHORITY.cert_pem.bytes())
        file.write_text(
            put_pair(file.parent)
            + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
            + "  client_allowed_sans: [scraper.example]\n"
        )
        allowed, other = client(), client()
        AUTHORITY.issue_cert("scraper.example").configure_cert(allowed)
        AUTHORITY.issue_cert("other.example").configure_cert(other)
        with serving(pages(), config_file=file) as address:
            assert get(address, context=allowed).status == 200
            for refused in (other, client()):
                with pytest.raises(OSError, match=r"closed connection|reset|aborted|certificate required|EOF"):
                    get(address, context=refused)

    def test_expired_certificate_is_logged_once_and_served(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        """The client decides."""
        expired = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        file.write_text(put_pair(file.parent, not_after=expired))
        with serving(pages(), config_file=file) as address:
            with pytest.raises(ssl.SSLCertVerificationError):
                get(address, context=client())
            careless = ssl.create_default_context()
            careless.check_hostname, careless.verify_mode = False, ssl.CERT_NONE
            assert get(address, context=careless).status == 200

        assert [record.getMessage() for record in caplog.records] == [
            f"clients will refuse the certificate of {file}: certificate has expired; renew the file: it is reloaded"
        ]


class TestExpiry:
    """Certificates that expire while clients are connected."""

    @pytest.fixture
    def expiring(self, file: Path) -> datetime.datetime:
        """When the client's certificate expires; the server requires one."""
        (file.parent / "ca.crt").write_bytes(AUTHORITY.cert_pem.bytes())
        file.write_text(
            put_pair(file.parent) + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"
        )
        return soon()

    def test_connection_ends_when_the_certificate_of_the_client_does(
        self, file: Path, expiring: datetime.datetime
    ) -> None:
        """Its next request is not answered: the client has to show another certificate."""
        context = client()
        AUTHORITY.issue_cert("scraper.example", not_after=expiring).configure_cert(context)
        with serving(pages(), config_file=file, idle_seconds=60.0) as address:
            connection = http.client.HTTPSConnection(*address, timeout=PATIENCE_SECONDS, context=context)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
            await_time(expiring)
            connection.request("GET", "/healthz")
            with pytest.raises(http.client.RemoteDisconnected):
                connection.getresponse()
            connection.close()

    def test_resumed_session_does_not_outlive_the_certificate(self, file: Path, expiring: datetime.datetime) -> None:
        """Resuming one verifies nothing again."""
        context = client()
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # in which the session is known after the handshake
        AUTHORITY.issue_cert("scraper.example", not_after=expiring).configure_cert(context)
        with serving(pages(), config_file=file) as address:
            with connected_over_tls(address, context) as first:
                session = first.session
            with connected_over_tls(address, context, session) as resumed:
                assert resumed.session_reused
                assert b"200 OK" in answer(resumed)
            await_time(expiring)
            with connected_over_tls(address, context, session) as late:
                assert late.session_reused
                assert answer(late) == b""

    def test_certificate_of_the_server_that_expires_is_logged_then(
        self, file: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """At the next connection, not an hour later."""
        expires = soon()
        file.write_text(put_pair(file.parent, not_after=expires))
        keeper = AccessControl(file)
        keeper.rules()
        assert not caplog.records
        expected = [
            f"clients will refuse the certificate of {file}: certificate has expired; renew the file: it is reloaded"
        ]
        eventually(lambda: keeper.rules() and caplog.messages == expected, "it is logged")
        keeper.rules()

        assert caplog.messages == expected


class TestReload:
    """A file that changes."""

    def test_bad_file_from_the_start(self, file: Path) -> None:
        """The exporter does not start."""
        file.write_text("tls: {}\n")
        with pytest.raises(BadInput, match="unknown key 'tls'"):
            AccessControl(file)

    def test_bad_change_is_ignored_and_logged_once(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        """However many requests arrive."""
        file.write_text(f"basic_auth_users:\n  alice: {hashed('p')}\n")
        keeper = AccessControl(file)
        file.write_text("basic_auth_users:\n  alice: p\n")
        gates = [keeper.rules() for _ in range(3)]

        assert [set(gate.config.users) for gate in gates] == [{"alice"}] * 3
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "cannot load the changed web configuration, keeping the last one: --web.config.file: " in caplog.text

    def test_missing_file_is_ignored(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Until it is back, which is logged too."""
        caplog.set_level(logging.INFO)
        file.write_text("rate_limit:\n  interval: 1s\n  burst: 2\n")
        keeper = AccessControl(file)
        file.unlink()
        assert keeper.rules().config.rate_limit is not None
        file.write_text("# nothing\n")

        assert keeper.rules().config.rate_limit is None
        assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]

    def test_file_that_is_being_written_gives_no_access(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An editor truncates it first. A file that stays empty is applied."""
        file.write_text(f"basic_auth_users:\n  alice: {hashed('p')}\n")
        keeper = AccessControl(file)
        file.write_text("")
        assert set(keeper.rules().config.users) == {"alice"}
        monkeypatch.setattr(access, "WRITING_SECONDS", 0.0)

        assert not keeper.rules().config.users

    def test_certificate_in_the_middle_of_a_change(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        """The key is replaced before its certificate: the old pair is served until both fit."""
        file.write_text(put_pair(file.parent))
        keeper = AccessControl(file)
        before = keeper.rules()
        new = trustme.CA().issue_cert("127.0.0.1")
        (file.parent / "server.key").write_bytes(new.private_key_pem.bytes())
        assert keeper.rules() is before
        (file.parent / "server.crt").write_bytes(b"".join(one.bytes() for one in new.cert_chain_pems))

        assert keeper.rules() is not before
        assert "key values mismatch" in caplog.text

    def test_unchanged_limit_keeps_its_tokens(self, file: Path) -> None:
        """When another part of the file changes."""
        text = "rate_limit:\n  interval: 1h\n  burst: 1\n"
        file.write_text(text)
        keeper = AccessControl(file)
        bucket = keeper.rules().bucket
        file.write_text(text + "http_server_config:\n  http2: false\n")

        assert bucket is not None
        assert keeper.rules().bucket is bucket
