"""orchestrators.http_json: limits of bytes, values and time, over the loopback interface."""

from __future__ import annotations

import itertools
import json
import queue
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from exporter.workloads.orchestrators.http_json import AnswerTooLarge, Endpoint, RequestFailed
from tests.support.patience import PATIENCE_SECONDS

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MIB = 1 << 20
Script = Callable[[socket.socket], None]


@contextmanager
def serving(script: Script, clock: Callable[[], float] = time.monotonic) -> Iterator[Endpoint]:
    """An endpoint whose server runs the script for each request. clock: of the client."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(65536)
                    script(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{listener.getsockname()[1]}", clock=clock)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(PATIENCE_SECONDS)


def sends(*parts: bytes) -> Script:
    """A script that sends these parts and closes the connection."""

    def script(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)

    return script


def sends_endlessly(first: bytes, repeated: bytes) -> Script:
    """A script that sends until the client closes the connection."""

    def script(connection: socket.socket) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(repeated)

    return script


def clock_of_tenths() -> Callable[[], float]:
    """A clock that is 0.1 s later each time it is read, which the client does before each read of its socket."""
    readings = itertools.count()
    return lambda: next(readings) / 10


class SteppedServer:
    """A server that sends what the test passes to send(), to a client whose clock shows `now`."""

    def __init__(self) -> None:
        self.now = 0.0
        self._parts: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    @contextmanager
    def lines(self, first: bytes, **bounds: float) -> Iterator[Iterator[Any]]:
        """The documents of a watch whose response begins with `first`."""
        self.send(first)
        seconds = {"head_seconds": 20.0, "line_seconds": 20.0, "whole_seconds": 20.0, **bounds}
        with serving(self.script, lambda: self.now) as endpoint, endpoint.lines("/watch", **seconds) as lines:
            yield (line for line in lines if line is not None)
            self.send(b"")

    def send(self, part: bytes) -> None:
        """b"" ends the response."""
        self._parts.put(part)

    def script(self, connection: socket.socket) -> None:
        for part in iter(self._parts.get, b""):
            connection.sendall(part)


def documents(endpoint: Endpoint, *, head: float = 20.0, line: float = 20.0, whole: float = 20.0) -> list[Any]:
    """The documents of a watch."""
    with endpoint.lines("/watch", head, line, whole) as lines:
        return [one for one in lines if one is not None]


def peak_bytes(body: bytes) -> int:
    """The peak of memory while a body is read and parsed."""
    with serving(sends(HEAD, body)) as endpoint:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            endpoint.json("/pods", PATIENCE_SECONDS)
            return tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()


def padded(items: Iterable[bytes], brackets: bytes = b"[]") -> bytes:
    """A document of 16 MiB, most of it a string."""
    content = brackets[:1] + b",".join(items) + brackets[1:]
    frame = b'{"items":' + content + b',"of":"%b"}'
    return frame % (b"a" * (16 * MIB - len(frame) + 2))


class TestRequest:
    """Requests and their failures."""

    def test_failure_names_the_url_without_its_query(self) -> None:
        with (
            serving(sends(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")) as endpoint,
            pytest.raises(RequestFailed) as raised,
        ):
            endpoint.json("/pods?continue=secret", PATIENCE_SECONDS)

        assert str(raised.value) == f"{endpoint.url}/pods: 403 Forbidden"
        assert raised.value.status == 403

    def test_status_is_kept_when_the_error_page_breaks_off(self) -> None:
        head = b"HTTP/1.1 410 Gone\r\nContent-Length: 9\r\n\r\n"
        with serving(sends(head)) as endpoint, pytest.raises(RequestFailed) as raised:
            endpoint.json("/pods", PATIENCE_SECONDS)

        assert raised.value.status == 410

    def test_missing_token_file_is_named(self) -> None:
        endpoint = Endpoint("http://127.0.0.1:1", token_file=Path("/nonexistent/token"))
        with pytest.raises(RequestFailed, match="cannot read the token in /nonexistent/token: No such file"):
            endpoint.json("/pods", PATIENCE_SECONDS)

    def test_cancel_ends_a_watch_that_waits(self) -> None:
        """From another thread, as at the exporter's exit."""
        server = SteppedServer()
        with serving(server.script) as endpoint:
            server.send(HEAD)
            threading.Timer(0.05, endpoint.cancel).start()
            with pytest.raises(RequestFailed, match="/watch: request cancelled"):
                documents(endpoint)
            server.send(b"")


class TestSize:
    """How much of an answer is read and parsed."""

    def test_body_of_exactly_the_limit_is_read(self) -> None:
        with serving(sends(HEAD, b'"aaaaaa"')) as endpoint:
            assert endpoint.json("/pods", PATIENCE_SECONDS, 8) == "aaaaaa"

    def test_body_larger_by_a_byte_is_refused(self) -> None:
        with (
            serving(sends(HEAD, b'"aaaaaaa"')) as endpoint,
            pytest.raises(AnswerTooLarge, match="/pods: response larger than 8 bytes"),
        ):
            endpoint.json("/pods", PATIENCE_SECONDS, 8)

    @pytest.mark.parametrize("item", [b"{}", b"[]", b'{"a":{}}', b"1", b'"a"'])
    def test_too_many_values_are_not_parsed(self, item: bytes) -> None:
        """An object takes more memory than its bytes."""
        body = b'{"items":[' + b",".join([item] * 250_001) + b"]}"
        with serving(sends(HEAD, body)) as endpoint, pytest.raises(AnswerTooLarge, match="more than 250000 values"):
            endpoint.json("/pods", PATIENCE_SECONDS)

    def test_too_many_quotes_are_refused_without_a_search(self) -> None:
        """Commas in strings are no values, but two million strings take too long to skip one at a time."""
        body = b'""' * 1_000_001 + b'"' + b"," * 250_001 + b'"'
        with serving(sends(HEAD, body)) as endpoint, pytest.raises(AnswerTooLarge, match="more than 250000 values"):
            endpoint.json("/pods", PATIENCE_SECONDS)

    @pytest.mark.parametrize("text", ["," * 300_000, '\\",{' * 150_000, "\\\\" * 9 + "[" * 300_000])
    def test_separators_in_strings_do_not_count(self, text: str) -> None:
        """Anyone who may start a pod may write them, and must not hide the other pods."""
        body = json.dumps({"of": text, "name": "job-0"}).encode()
        with serving(sends(HEAD, body)) as endpoint:
            assert endpoint.json("/pods", PATIENCE_SECONDS)["name"] == "job-0"

    @pytest.mark.parametrize(
        "body",
        [
            padded(b'{"%06d":1.5}' % number for number in range(124_990)),
            padded((b'"%019d":"%019d"' % (number, number) for number in range(249_990)), b"{}"),
            padded([b'"\\ud83d\\ude00"', '"\U0001f600"'.encode()]),
            b'"\\ud83d\\ude00' + b"a" * (16 * MIB - 14) + b'"',
            b'"' + b"aa\\n" * (4 * MIB - 1) + b'"',
        ],
        ids=["objects", "keys", "characters", "escaped character", "escapes"],
    )
    def test_largest_answer_takes_less_than_72_mib(self, body: bytes) -> None:
        """The exporter's pod has a limit of 512 MiB; these are the worst bodies within the bounds."""
        assert peak_bytes(body) < 72 * MIB


class TestDeadline:
    """A deadline holds for the whole answer, however often a byte arrives."""

    @pytest.mark.parametrize(
        "script",
        [
            sends_endlessly(b"HTTP/1.1 200 O", b"O"),
            sends_endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            sends_endlessly(HEAD, b" "),
            sends_endlessly(CHUNKED, b"0"),
        ],
        ids=["head", "another head", "body", "size of a chunk"],
    )
    def test_answer_without_an_end_fails_at_the_deadline(self, script: Script) -> None:
        with (
            serving(script, clock_of_tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"/pods: no complete response within 0\.5 s"),
        ):
            endpoint.json("/pods", 0.5)

    def test_head_of_a_watch_has_a_deadline_of_its_own(self) -> None:
        with (
            serving(sends_endlessly(b"HTTP/1.1 200 O", b"O"), clock_of_tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"/watch: no response within 0\.5 s"),
        ):
            documents(endpoint, head=0.5)

    def test_line_of_a_watch_has_a_deadline_from_its_first_byte_on(self) -> None:
        with (
            serving(sends_endlessly(HEAD + b"1\n", b" "), clock_of_tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"a line was not complete within 0\.5 s"),
        ):
            documents(endpoint, line=0.5)

    def test_watch_has_a_deadline_for_all_of_its_lines(self) -> None:
        with (
            serving(sends_endlessly(HEAD, b"1\n"), clock_of_tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"/watch: the response did not end within 0\.5 s"),
        ):
            documents(endpoint, whole=0.5)

    def test_pause_between_lines_does_not_count_for_a_line(self) -> None:
        """The end of a chunk does not begin a line either."""
        server = SteppedServer()
        with server.lines(CHUNKED + b"2\r\n1\n", line_seconds=0.5) as lines:
            assert next(lines) == 1

            server.now = 0.8
            server.send(b"\r\n2\r\n2\n\r\n0\r\n\r\n")
            assert next(lines) == 2

    def test_deadline_of_a_line_ends_with_the_line(self) -> None:
        server = SteppedServer()
        with server.lines(HEAD + b"[1", line_seconds=1.0) as lines:
            server.send(b"]\n")
            assert next(lines) == [1]

            server.now = 1.2
            server.send(b"2\n")
            assert next(lines) == 2

    def test_deadline_of_the_head_ends_with_the_head(self) -> None:
        """No pod may change for minutes."""
        server = SteppedServer()
        with server.lines(HEAD, head_seconds=1.0) as lines:
            server.now = 1.2
            server.send(b"1\n")

            assert next(lines) == 1


class TestLines:
    """The documents of a watch."""

    def test_blank_lines_give_none(self) -> None:
        """So that the caller can stop, and limit the CPU it spends on them."""
        with (
            serving(sends(HEAD, *(b"\n",) * 100_000)) as endpoint,
            endpoint.lines("/watch", PATIENCE_SECONDS, PATIENCE_SECONDS, PATIENCE_SECONDS) as lines,
        ):
            assert next(lines) is None

    def test_last_line_needs_no_line_end(self) -> None:
        with serving(sends(HEAD, b'{"a": 1}\n \n[2]')) as endpoint:
            assert documents(endpoint) == [{"a": 1}, [2]]

    def test_line_may_span_chunks(self) -> None:
        script = sends(CHUNKED, b"2\r\n[1\r\n", b"4\r\n]\n[2\r\n", b"2\r\n]\n\r\n0\r\n\r\n")
        with serving(script) as endpoint:
            assert documents(endpoint) == [[1], [2]]
