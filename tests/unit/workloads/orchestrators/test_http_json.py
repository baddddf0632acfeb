"""orchestrators.http_json: how much of an answer is read and parsed, and how long it may take, over the loopback interface."""

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
from typing import Any

import pytest

from exporter.workloads.orchestrators.http_json import Endpoint, RequestFailed, TooLarge

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PATIENCE_SECONDS = 20.0
MIB = 1 << 20
Script = Callable[[socket.socket], None]


@contextmanager
def speaking(script: Script, clock: Callable[[], float] = time.monotonic) -> Iterator[Endpoint]:
    """A server that does this with each of its connections, from the beginning on. clock: of the client."""
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


def saying(*parts: bytes) -> Script:
    """Once it was asked."""

    def speak(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)

    return speak


def endless(first: bytes, repeated: bytes) -> Script:
    """An answer that goes on until the client hangs up."""

    def speak(connection: socket.socket) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(repeated)

    return speak


def tenths() -> Callable[[], float]:
    """A clock that is 0.1 s later each time it is read, which the client does before each read of its socket."""
    readings = itertools.count()
    return lambda: next(readings) / 10


class Hand:
    """A server that sends what the test puts, to a client by whose clock it is `now`."""

    def __init__(self) -> None:
        self.now = 0.0
        self._parts: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    @contextmanager
    def lines(self, first: bytes, **bounds: float) -> Iterator[Iterator[Any]]:
        """Of a watch whose answer begins so; None wherever bytes came that ended no line is left out."""
        self.send(first)
        seconds = {"head_seconds": 20.0, "line_seconds": 20.0, "whole_seconds": 20.0, **bounds}
        with speaking(self._speak, lambda: self.now) as endpoint, endpoint.lines("/watch", **seconds) as lines:
            yield (line for line in lines if line is not None)
            self.send(b"")

    def send(self, part: bytes) -> None:
        """Nothing: the end of the answer."""
        self._parts.put(part)

    def _speak(self, connection: socket.socket) -> None:
        for part in iter(self._parts.get, b""):
            connection.sendall(part)


def told(endpoint: Endpoint, *, head: float = 20.0, line: float = 20.0, whole: float = 20.0) -> list[Any]:
    """The lines that were documents."""
    with endpoint.lines("/watch", head, line, whole) as lines:
        return [one for one in lines if one is not None]


def peak_bytes(body: bytes) -> int:
    """Of the memory that it takes to read and to parse this."""
    with speaking(saying(HEAD, body)) as endpoint:
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


class TestSize:
    """How much of an answer is read, and parsed."""

    def test_body_of_exactly_the_limit_is_read(self) -> None:
        """The last one that is."""
        with speaking(saying(HEAD, b'"aaaaaa"')) as endpoint:
            assert endpoint.json("/pods", PATIENCE_SECONDS, 8) == "aaaaaa"

    def test_larger_body_is_refused(self) -> None:
        """By a byte."""
        with speaking(saying(HEAD, b'"aaaaaaa"')) as endpoint, pytest.raises(TooLarge, match="larger than 8 bytes"):
            endpoint.json("/pods", PATIENCE_SECONDS, 8)

    def test_body_that_is_said_to_be_larger_is_not_waited_for(self) -> None:
        """It does not come at all here."""
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
        with speaking(saying(head)) as endpoint, pytest.raises(TooLarge, match="larger than 8 bytes"):
            endpoint.json("/pods", PATIENCE_SECONDS, 8)

    @pytest.mark.parametrize("item", [b"{}", b"[]", b'{"a":{}}', b"1", b'"a"'])
    def test_flood_of_values_is_not_parsed(self, item: bytes) -> None:
        """Each of them takes more memory than bytes."""
        body = b'{"items":[' + b",".join([item] * 250_001) + b"]}"
        with speaking(saying(HEAD, body)) as endpoint, pytest.raises(TooLarge, match="more than 250000 values"):
            endpoint.json("/pods", PATIENCE_SECONDS)

    def test_flood_of_quotes_is_not_looked_through(self) -> None:
        """They are of no document, but would be looked through for one since there are so many commas."""
        body = b'""' * 1_000_001 + b'"' + b"," * 250_001 + b'"'
        with speaking(saying(HEAD, body)) as endpoint, pytest.raises(TooLarge, match="more than 250000 values"):
            endpoint.json("/pods", PATIENCE_SECONDS)

    @pytest.mark.parametrize("text", ["," * 300_000, '\\",{' * 150_000, "\\\\" * 9 + "[" * 300_000])
    def test_commas_and_brackets_of_strings_are_no_values(self, text: str) -> None:
        """Whoever may start a pod may write them, and would hide all others."""
        body = json.dumps({"of": text, "name": "job-0"}).encode()
        with speaking(saying(HEAD, body)) as endpoint:
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
        """Of the 512 that a pod of ours has; the worst that can be said within the bounds."""
        assert peak_bytes(body) < 72 * MIB

    def test_body_in_too_many_parts_is_refused(self) -> None:
        """Each costs more time than bytes: 65,537 chunks of a byte."""
        body = b"1\r\n \r\n" * 65_536 + b"1\r\n5\r\n0\r\n\r\n"
        with speaking(saying(CHUNKED, body)) as endpoint, pytest.raises(TooLarge, match="more than 65536 parts"):
            endpoint.json("/pods", PATIENCE_SECONDS)


class TestTime:
    """A deadline is one for all that comes, however often a byte does."""

    @pytest.mark.parametrize(
        "script",
        [
            endless(b"HTTP/1.1 200 O", b"O"),
            endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            endless(HEAD, b" "),
            endless(CHUNKED, b"0"),
        ],
        ids=["head", "another head", "body", "size of a chunk"],
    )
    def test_answer_without_an_end_is_given_up(self, script: Script) -> None:
        """Though bytes come all the time."""
        with (
            speaking(script, tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"/pods was not whole within 0\.5 s"),
        ):
            endpoint.json("/pods", 0.5)

    def test_head_without_an_end_is_refused(self) -> None:
        """As fast as it may come: 20,000 times 25 bytes are more than 128 KiB."""
        script = saying(b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000, HEAD, b"5")
        with (
            speaking(script) as endpoint,
            pytest.raises(RequestFailed, match="head of its answer is larger than 131072"),
        ):
            endpoint.json("/pods", PATIENCE_SECONDS)

    def test_head_of_a_watch_without_an_end_is_given_up(self) -> None:
        """Long before the watch would be."""
        with (
            speaking(endless(b"HTTP/1.1 200 O", b"O"), tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"/watch was not answered within 0\.5 s"),
        ):
            told(endpoint, head=0.5)

    def test_line_of_a_watch_without_an_end_is_given_up(self) -> None:
        """From its first byte on."""
        with (
            speaking(endless(HEAD + b"1\n", b" "), tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"a line was not whole within 0\.5 s"),
        ):
            told(endpoint, line=0.5)

    def test_watch_that_does_not_end_is_given_up(self) -> None:
        """Though each of its lines is in time."""
        with (
            speaking(endless(HEAD, b"1\n"), tenths()) as endpoint,
            pytest.raises(RequestFailed, match=r"/watch did not end within 0\.5 s"),
        ):
            told(endpoint, whole=0.5)

    def test_time_between_two_lines_is_not_a_line_s(self) -> None:
        """Nor is what ends a chunk the beginning of one."""
        hand = Hand()
        with hand.lines(CHUNKED + b"2\r\n1\n", line_seconds=0.5) as lines:
            assert next(lines) == 1

            hand.now = 0.8
            hand.send(b"\r\n2\r\n2\n\r\n0\r\n\r\n")
            assert next(lines) == 2

    def test_time_after_a_line_that_came_in_parts_is_not_its_own(self) -> None:
        """It is over when the line is whole."""
        hand = Hand()
        with hand.lines(HEAD + b"[1", line_seconds=1.0) as lines:
            hand.send(b"]\n")
            assert next(lines) == [1]

            hand.now = 1.2
            hand.send(b"2\n")
            assert next(lines) == 2

    def test_silence_of_a_watch_is_not_its_head_s(self) -> None:
        """Nothing may happen for minutes."""
        hand = Hand()
        with hand.lines(HEAD, head_seconds=1.0) as lines:
            hand.now = 1.2
            hand.send(b"1\n")

            assert next(lines) == 1


class TestLines:
    """Of a watch."""

    def test_blank_lines_are_told_of(self) -> None:
        """So that whoever waits for lines can stop, and spend less on them."""
        with (
            speaking(saying(HEAD, *(b"\n",) * 100_000)) as endpoint,
            endpoint.lines("/watch", PATIENCE_SECONDS, PATIENCE_SECONDS, PATIENCE_SECONDS) as lines,
        ):
            assert next(lines) is None

    def test_last_line_needs_no_end(self) -> None:
        """As files have it."""
        with speaking(saying(HEAD, b'{"a": 1}\n \n[2]')) as endpoint:
            assert told(endpoint) == [{"a": 1}, [2]]

    def test_line_comes_in_parts(self) -> None:
        """Chunks are no lines."""
        with speaking(saying(CHUNKED, b"2\r\n[1\r\n", b"4\r\n]\n[2\r\n", b"2\r\n]\n\r\n0\r\n\r\n")) as endpoint:
            assert told(endpoint) == [[1], [2]]
