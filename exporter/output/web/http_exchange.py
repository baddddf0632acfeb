"""HTTP/1.1 on one connection: requests in, responses out. h11 parses; no time limit is kept here."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import unquote

import h11

from exporter import __version__
from exporter.output.web.messages import Request, Response
from exporter.output.web.request_head import BadRequest, refuse_ambiguous

HEAD_BYTES = 16_384
CLOSE = ("Connection", "close")
_BODY_BYTES = 65_536
_WRITE_BYTES = 1 << 16
_SERVER = f"gpu-stall-exporter/{__version__}"


class HttpExchange:
    """One request and its response at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._parser = _new_parser()
        self._received = b""  # up to the end of the head

    async def request(self) -> Request | None:
        """The next request; its body is read and dropped. None: the client has closed. Raises BadRequest."""
        try:
            return await self._request()
        except h11.RemoteProtocolError as error:
            raise BadRequest(str(error), error.error_status_hint) from error

    async def send(self, response: Response, *, is_head: bool = False) -> None:
        """Send a response; is_head: without its body."""
        headers = [
            ("Server", _SERVER),
            ("Date", formatdate(usegmt=True)),
            ("Content-Length", str(response.size_bytes)),
            *response.headers,
        ]
        head = h11.Response(status_code=response.status, headers=headers, reason=HTTPStatus(response.status).phrase)
        self._writer.write(self._parser.send(head) or b"")
        for block in () if is_head else response.body:
            for at in range(0, len(block), _WRITE_BYTES):  # the transport keeps a copy of what is not sent yet
                data = self._parser.send_with_data_passthrough(h11.Data(data=block[at : at + _WRITE_BYTES]))
                self._writer.writelines(data or ())
                await self._writer.drain()
        self._writer.write(self._parser.send(h11.EndOfMessage()) or b"")
        await self._writer.drain()

    @property
    def may_respond(self) -> bool:
        """Whether a response to a bad request can still be sent."""
        return self._parser.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    def start_next(self) -> bool:
        """Prepare for another request. Returns False when the connection ends with this response."""
        if self._parser.our_state is not h11.DONE or self._parser.their_state is not h11.DONE:
            return False
        received, _is_at_end = self._parser.trailing_data
        self._parser, self._received = _new_parser(), b""
        self._parse(received)
        return True

    async def wait_for_data(self) -> None:
        """Until the next request begins, or the client closes."""
        if not self._parser.trailing_data[0]:
            await self._receive()

    async def _request(self) -> Request | None:
        request, body_bytes = None, 0
        while True:
            event = self._parser.next_event()
            if event is h11.NEED_DATA and not self._parser.they_are_waiting_for_100_continue:
                await self._receive()
            elif isinstance(event, h11.Request):
                self._check_head()
                if event.http_version not in (b"1.0", b"1.1"):
                    raise BadRequest("HTTP version not supported", 505)
                request = _request_of(event)
            elif isinstance(event, h11.Data):
                body_bytes += len(event.data)
                if body_bytes > _BODY_BYTES:
                    raise BadRequest(f"body larger than {_BODY_BYTES} bytes", 413)
            elif isinstance(event, h11.ConnectionClosed):
                return None
            else:  # the end of the message, or the client waits for 100 Continue, which no page needs
                return request

    def _check_head(self) -> None:
        """Called when the parser has read the head and nothing behind it. Raises BadRequest."""
        rest, _is_at_end = self._parser.trailing_data
        refuse_ambiguous(self._received[: len(self._received) - len(rest)])
        self._received = b""

    async def _receive(self) -> None:
        data = await self._reader.read(HEAD_BYTES)
        if data:
            self._parse(data)
        else:
            self._parser.receive_data(b"")  # the client has closed

    def _parse(self, data: bytes) -> None:
        """Skips empty lines before a request, for which h11 would refuse it: RFC 9112, section 2.2."""
        is_before_request = self._parser.their_state is h11.IDLE and not self._parser.trailing_data[0]
        kept = data.lstrip(b"\r\n") if is_before_request else data
        if kept:
            if self._parser.their_state is h11.IDLE:
                self._received += kept
            self._parser.receive_data(kept)


def _new_parser() -> h11.Connection:
    """A parser of one request: h11 cannot drop an empty line that it has received."""
    return h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)


def _request_of(event: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for name, value in event.headers:
        key = name.decode("ascii")
        headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
    target = event.target.decode("ascii")
    if target.startswith(("http://", "https://")):  # the form for proxies: RFC 9112, section 3.2.2
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, _query = target.partition("?")
    return Request(event.method.decode("ascii"), unquote(path), headers)
