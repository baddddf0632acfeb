"""The web server of a real exporter, beside a job, while clients misbehave; and its configuration, while that changes."""

from __future__ import annotations

import http.client
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import certificates, held_calls, hostile_clients
from tests.support.exporter_process import Exporter, running
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
# The first passed descriptor is 3.
PASSES_A_SOCKET = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    """An exporter with a job of two ranks."""
    with running() as found, held_calls.held_calls("ncclAllReduce:100:4096", "cudaMalloc:100") as calls:
        eventually(lambda: found.logs.count("attached to") >= len(STANDIN_LIBRARIES), "the libraries are probed")
        calls.make()
        yield found


def address(exporter: Exporter) -> tuple[str, int]:
    """The address of the exporter."""
    parts = urlsplit(exporter.url)
    return parts.hostname or "", parts.port or 0


class TestHostileClients:
    """None of them stops the next scrape."""

    @pytest.mark.parametrize("kind", hostile_clients.KINDS)
    def test_scrape_beside_them(self, exporter: Exporter, kind: str) -> None:
        """The next scrape after they have connected, which stay until it is answered."""
        with hostile_clients.KINDS[kind](address(exporter)):
            assert exporter.get().status == 200

    def test_hundred_scrapes_at_once_are_answered(self, exporter: Exporter) -> None:
        """All of them."""
        with hostile_clients.asking(address(exporter)) as clients:
            statuses = [b"".join(iter(lambda one=one: one.recv(1 << 16), b"")).split()[1] for one in clients]

        assert statuses == [b"200"] * 100

    def test_malformed_requests(self, exporter: Exporter) -> None:
        """Random bytes of every length."""
        for size in (1, 100, 10_000, 1_000_000):
            with hostile_clients.silent(address(exporter), 1) as (client,):
                try:
                    client.sendall(bytes(range(256)) * (size // 256 + 1))
                except OSError:
                    continue  # it has been dropped in the middle of it
        assert exporter.get().status == 200


class TestStop:
    """SIGTERM under load."""

    def test_it_ends(self) -> None:
        """With scrapes in progress, silent clients, and clients that do not read."""
        with running() as exporter:
            over = threading.Event()

            def scrape() -> None:
                while not over.is_set():
                    try:
                        exporter.get()
                    except (OSError, http.client.HTTPException):
                        return

            scrapers = [threading.Thread(target=scrape) for _ in range(4)]
            with (
                hostile_clients.silent(address(exporter), 50),
                hostile_clients.taking_nothing(address(exporter)),
            ):
                for one in scrapers:
                    one.start()
                code = exporter.stop()
                over.set()
                for one in scrapers:
                    one.join()

        assert code == 0


class TestSystemdSocket:
    """--web.systemd-socket, with a socket passed as systemd passes it."""

    def test_it_serves_on_the_passed_socket(self) -> None:
        """And on no other; the first client, which connected before it started, is answered too."""
        with (
            socket.create_server(("127.0.0.1", 0)) as listening,
            socket.create_connection(listening.getsockname()) as early,
        ):
            port = listening.getsockname()[1]
            early.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            under = (sys.executable, "-c", PASSES_A_SOCKET, str(listening.fileno()))
            with running("--web.systemd-socket", under=under, descriptors=[listening.fileno()]) as exporter:
                answer = early.recv(4096)
                status, logs = exporter.get("/healthz").status, exporter.logs

        assert answer.startswith(b"HTTP/1.1 200 ")
        assert status == 200
        assert logs.count(f"serving http://127.0.0.1:{port}/metrics") == logs.count("serving http") == 1


class TestConfiguration:
    """--web.config.file."""

    def test_tls_from_the_first_connection_on_at_each_address(self, tmp_path: Path) -> None:
        """The logged addresses are https, and the certificate is the file's."""
        made = certificates.issue(tmp_path)
        file = tmp_path / "web.yml"
        file.write_text(f"tls_server_config:\n  cert_file: {made.server.name}\n  key_file: {made.server.name}\n")
        with running(f"--web.config.file={file}", "--web.listen-address=127.0.0.2:0") as exporter:
            urls = eventually(lambda: _urls(exporter), "both are logged")
            context = made.client_context()
            statuses = [_status(urls[0], context)]
            context.check_hostname = False  # the certificate is for the first one
            statuses.append(_status(urls[1], context))

        assert [url.rpartition(":")[0] for url in urls] == ["https://127.0.0.1", "https://127.0.0.2"]
        assert statuses == [200, 200]

    def test_file_that_becomes_bad_changes_nothing(self, tmp_path: Path) -> None:
        """It is logged once, with the wrong line."""
        file = tmp_path / "web.yml"
        file.write_text("http_server_config:\n  headers:\n    X-Frame-Options: deny\n")
        with running(f"--web.config.file={file}") as exporter:
            file.write_text("http_server_config:\n  headers:\n    X-Frame-Options: allow\n")
            answers = [exporter.get("/healthz").headers["X-Frame-Options"] for _ in range(3)]
            logs = exporter.logs

        assert answers == ["deny"] * 3
        assert logs.count("cannot load the changed web configuration") == 1
        assert "X-Frame-Options must be deny or sameorigin, not 'allow'" in logs

    def test_reload_page_needs_a_flag(self, exporter: Exporter) -> None:
        connection = http.client.HTTPConnection(*address(exporter), timeout=PATIENCE_SECONDS)
        connection.request("POST", "/-/reload")
        response = connection.getresponse()

        assert (response.status, response.read()) == (403, b"disabled; --web.enable-lifecycle enables it\n")
        connection.close()


def _status(url: str, context: ssl.SSLContext) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=PATIENCE_SECONDS, context=context
    )
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status


def _urls(exporter: Exporter) -> list[str]:
    found = [line.split("serving ")[1].strip('"') for line in exporter.logs.splitlines() if "serving " in line]
    return found if len(found) == 2 else []
