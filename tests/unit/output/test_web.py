"""web: the WSGI application called directly, and the server over the loopback interface."""

from __future__ import annotations

import gzip
import http.client
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from exporter import __version__, catalog
from exporter.errors import BadInput
from exporter.model import Snapshot
from exporter.output.own_metrics import OwnMetrics
from exporter.output.web import Application, Server
from tests.support.prometheus_protobuf import of_delimited
from tests.support.records import point, snapshot_of

SNAPSHOT = snapshot_of(catalog.CUDA_OPERATIONS, point(12, "runtime", "cudaMalloc"))
SERIES = "gpustall_cuda_operations_total{"


class Answer:
    """What an application said to one request."""

    def __init__(self, application: Application, path: str = "/metrics", method: str = "GET", **headers: str) -> None:
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path}
        environ |= {f"HTTP_{name.upper()}": value for name, value in headers.items()}
        self.status, self.headers = "", dict[str, str]()
        self.raw = b"".join(application(environ, self._start))

    def _start(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.status, self.headers = status, dict(headers)

    @property
    def text(self) -> str:
        """The body, unpacked."""
        return (gzip.decompress(self.raw) if "Content-Encoding" in self.headers else self.raw).decode()


def application(
    snapshot: Callable[[], Snapshot] = lambda: SNAPSHOT, *, is_ready: bool = True, **arguments: object
) -> Application:
    """An application with one series."""
    return Application(snapshot, OwnMetrics(), lambda: is_ready, **arguments)  # type: ignore[arg-type]


class TestPages:
    """Paths and methods."""

    def test_metrics_are_served(self) -> None:
        """Text, with the exporter's own metrics in front."""
        answer = Answer(application())

        assert (answer.status, answer.headers["Content-Type"]) == ("200 OK", "text/plain; version=0.0.4; charset=utf-8")
        assert answer.text.index("process_cpu_seconds_total") < answer.text.index(SERIES)

    def test_openmetrics_is_served_when_asked_for_and_ends_with_its_mark(self) -> None:
        """A strict parser reads all of it, own metrics included."""
        answer = Answer(application(), accept="application/openmetrics-text;version=1.0.0")

        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert answer.text.endswith("\n# EOF\n")
        assert "gpustall_cuda_operations" in {family.name for family in parse_openmetrics(answer.text)}

    def test_protobuf_is_served_when_asked_for(self) -> None:
        """As Prometheus asks with native histograms on; own metrics included."""
        wanted = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

        answer = Answer(application(), accept=wanted)

        assert answer.headers["Content-Type"].replace(" ", "") == wanted
        assert {"gpustall_cuda_operations_total", "process_cpu_seconds_total"} <= of_delimited(answer.raw).keys()

    def test_body_is_compressed_when_allowed(self) -> None:
        """The same text after unpacking."""
        answer = Answer(application(with_exporter_metrics=False), accept_encoding="gzip")

        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.text == Answer(application(with_exporter_metrics=False)).text

    def test_caches_are_told_what_the_body_depends_on(self) -> None:
        """Two formats and two encodings have one address."""
        assert Answer(application()).headers["Vary"] == "Accept, Accept-Encoding"

    def test_own_metrics_can_be_left_out(self) -> None:
        """--web.disable-exporter-metrics."""
        text = Answer(application(with_exporter_metrics=False)).text

        assert SERIES in text
        assert "process_" not in text

    def test_metrics_path_can_be_another(self) -> None:
        """--web.telemetry-path; the usual one is then not found, and the answer says where to look."""
        other = application(telemetry_path="/gpu")

        assert Answer(other, "/gpu").status == "200 OK"
        assert (Answer(other).status, Answer(other).text) == ("404 Not Found", "not found; metrics are at /gpu\n")

    def test_time_of_rendering_is_reported_at_the_next_scrape(self) -> None:
        """By format."""
        asked_twice = application()
        Answer(asked_twice)

        assert 'gpustall_exporter_render_duration_seconds{format="text"}' in Answer(asked_twice).text

    def test_unknown_path_is_404(self) -> None:
        """Also below a known one."""
        assert [Answer(application(), path).status for path in ("/metrics/", "/x", "//", "")] == ["404 Not Found"] * 4

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get"])
    def test_other_methods_are_405(self, method: str) -> None:
        """Told which ones there are."""
        answer = Answer(application(), method=method)

        assert (answer.status, answer.headers["Allow"]) == ("405 Method Not Allowed", "GET, HEAD")

    @pytest.mark.parametrize("path", ["/metrics", "/", "/healthz", "/readyz", "/x"])
    def test_head_has_the_headers_of_get_and_no_body(self, path: str) -> None:
        """Length included."""
        head = Answer(application(with_exporter_metrics=False), path, method="HEAD")
        get = Answer(application(with_exporter_metrics=False), path)

        assert (head.status, head.headers, head.raw) == (get.status, get.headers, b"")

    @pytest.mark.parametrize("path", ["/metrics", "/", "/healthz", "/x"])
    def test_length_is_told(self, path: str) -> None:
        """In bytes, as they are sent."""
        answer = Answer(application(), path, accept_encoding="gzip")

        assert answer.headers["Content-Length"] == str(len(answer.raw))

    def test_healthz_answers_whatever_the_state(self) -> None:
        """The process lives; a restart would help nobody."""
        assert Answer(application(is_ready=False), "/healthz").status == "200 OK"

    def test_readyz_says_whether_probes_are_in_place(self) -> None:
        """503 before the first tick."""
        assert Answer(application(is_ready=True), "/readyz").status == "200 OK"
        assert Answer(application(is_ready=False), "/readyz").status == "503 Service Unavailable"

    def test_health_takes_no_snapshot(self) -> None:
        """A probe of Kubernetes every second costs nothing."""

        def fail() -> Snapshot:
            raise AssertionError("a snapshot was taken")

        assert [Answer(application(fail), path).status for path in ("/healthz", "/readyz", "/")] == ["200 OK"] * 3

    def test_landing_page_leads_to_the_metrics(self) -> None:
        """With the version; the path is escaped."""
        answer = Answer(application(telemetry_path='/m"<'), "/")

        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert '<a href="/m&quot;&lt;">' in answer.text
        assert f"Version {__version__}." in answer.text


Serve = Callable[..., tuple[str, int]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers on free ports of the loopback interface; stops them afterwards."""
    started: list[tuple[Server, threading.Thread]] = []

    def start(
        app: Application | None = None, *, max_requests: int = 5, patience_seconds: float = 5.0
    ) -> tuple[str, int]:
        server = Server(("127.0.0.1", 0), app or application(), max_requests, patience_seconds)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        started.append((server, thread))
        return "127.0.0.1", int(server.server_address[1])

    yield start
    for server, thread in started:
        server.shutdown()
        thread.join()
        server.server_close()


def get(address: tuple[str, int], path: str = "/metrics", method: str = "GET") -> http.client.HTTPResponse:
    """The response; its body is read into `.body`."""
    connection = http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        response.body = response.read()  # type: ignore[attr-defined]
        return response
    finally:
        connection.close()


def said(address: tuple[str, int], request: bytes) -> bytes:
    """Everything the server says to these bytes."""
    with socket.create_connection(address, timeout=5) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def status_within(address: tuple[str, int], wanted: int, seconds: float = 3.0) -> bool:
    """Whether /healthz has the status within some time; a connection that is reset counts as another status."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if get(address, "/healthz").status == wanted:
                return True
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.01)
    return False


class TestServer:
    """Over a socket."""

    def test_scrape_is_answered(self, serve: Serve) -> None:
        """As the application says it."""
        response = get(serve())

        assert response.status == 200
        assert SERIES.encode() in response.body  # type: ignore[attr-defined]

    def test_head_ends_after_the_headers(self, serve: Serve) -> None:
        """No byte of a body, though its length is told."""
        response = said(serve(), b"HEAD /healthz HTTP/1.0\r\n\r\n")

        assert response.endswith(b"\r\n\r\n")
        assert b"Content-Length: 3\r\n" in response

    @pytest.mark.parametrize(
        "request_line", [b"GET /healthz HTTP/1.0", b"GET / HTTP/9.9", b"GET / x HTTP/1.1", b"POST / HTTP/1.0"]
    )
    def test_server_header_says_nothing_of_python(self, serve: Serve, request_line: bytes) -> None:
        """Good and bad requests alike."""
        response = said(serve(), request_line + b"\r\n\r\n")

        assert b"Python" not in response
        assert b"WSGIServer" not in response

    def test_silent_client_does_not_stop_a_scrape(self, serve: Serve) -> None:
        """It has a thread of its own."""
        address = serve()
        with socket.create_connection(address), socket.create_connection(address):
            assert get(address).status == 200

    def test_silent_client_is_dropped(self, serve: Serve) -> None:
        """After its patience the server closes, without a word."""
        assert said(serve(patience_seconds=0.05), b"") == b""

    def test_connections_beyond_the_limit_are_turned_away(self, serve: Serve) -> None:
        """503 at once, before they say a word."""
        address = serve(max_requests=2)
        with socket.create_connection(address), socket.create_connection(address):
            answer = said(address, b"")

        assert answer.startswith(b"HTTP/1.0 503 ")
        assert answer.endswith(b"\r\n\r\ntoo many requests\n")

    def test_server_recovers_when_the_crowd_leaves(self, serve: Serve) -> None:
        """Each place is given back."""
        address = serve(max_requests=2)
        with socket.create_connection(address), socket.create_connection(address):
            assert said(address, b"")

        assert status_within(address, 200)

    def test_server_recovers_from_a_crowd_that_stays_silent(self, serve: Serve) -> None:
        """Its patience ends."""
        address = serve(max_requests=2, patience_seconds=0.1)
        with socket.create_connection(address), socket.create_connection(address):
            assert status_within(address, 200)

    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (b"GET\r\n\r\n", b"400"),
            (b"GET / x HTTP/1.1\r\n\r\n", b"400"),
            (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
            (b"GET / HTTP/9.9\r\n\r\n", b"505"),
            (b"GET / HTTP/1.0\r\n" + b"A: b\r\n" * 101 + b"\r\n", b"431"),
        ],
        ids=["no path", "four words", "TLS", "HTTP/9.9", "101 headers"],
    )
    def test_bad_request_is_told_so(self, serve: Serve, request_bytes: bytes, status: bytes) -> None:
        """And the next one is served."""
        address = serve()

        assert status in said(address, request_bytes)
        assert get(address).status == 200

    def test_request_line_without_an_end_is_cut(self, serve: Serve) -> None:
        """At 64 KiB."""
        address = serve()
        with socket.create_connection(address, timeout=5) as client:
            client.sendall(b"GET /" + b"a" * 65_532)

            assert client.recv(65536).split()[1] == b"414"

    def test_failing_snapshot_is_a_500_and_logged_once(self, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
        """The body says nothing of the inside."""

        def fail() -> Snapshot:
            raise RuntimeError("the tables cannot be read")

        response = get(serve(application(fail)))

        assert response.status == 500
        assert b"tables" not in response.body  # type: ignore[attr-defined]
        assert [record.getMessage() for record in caplog.records] == ["a request failed"]

    def test_client_that_takes_nothing_is_dropped_without_a_word_in_the_log(
        self, serve: Serve, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A response larger than every socket buffer."""
        caplog.set_level(logging.DEBUG)
        many = snapshot_of(catalog.CUDA_OPERATIONS, *(point(n, "runtime", f"{n:0100}") for n in range(40_000)))
        address = serve(application(lambda: many, with_exporter_metrics=False), max_requests=1, patience_seconds=0.1)
        with socket.create_connection(address) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert status_within(address, 200)

        assert caplog.records == []

    def test_port_taken_is_bad_input(self, serve: Serve) -> None:
        """With what to do."""
        host, port = serve()
        with pytest.raises(BadInput, match=f"cannot listen on 127.0.0.1:{port}: Address already in use") as raised:
            Server((host, port), application(), 1)

        assert raised.value.remedy == "choose another --web.listen-address"

    def test_address_of_another_machine_is_bad_input(self) -> None:
        """192.0.2.0/24 is nobody's."""
        with pytest.raises(BadInput, match=r"cannot listen on 192\.0\.2\.1:0"):
            Server(("192.0.2.1", 0), application(), 1)

    def test_ipv6_is_served(self) -> None:
        """The loopback address ::1."""
        try:
            server = Server(("::1", 0), application(), 1)
        except BadInput:
            pytest.skip("this machine has no IPv6 loopback address")
        with server:
            assert server.address_family is socket.AF_INET6
