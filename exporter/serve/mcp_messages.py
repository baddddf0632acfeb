"""What a client sends that is no message of JSON-RPC: refused over both transports with the failure that the HTTP API has for it.

In: a body, or a line of standard input. Out: the message, or an error whose `data` is the document of the failure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Self

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from exporter.errors import BadInput
from exporter.serve.gate import BODY_BYTES_MAX, App, Message, Receive, Scope, Send
from exporter.serve.tools.failure import Failure, StatusKind
from exporter.service.request_body import json_object

_NO_JSON: Final = "json_invalid"
"""A type of pydantic's errors."""


def refusal_of(error: ValidationError) -> types.JSONRPCError:
    first = error.errors(include_url=False)[0]
    code, failure = (
        types.INVALID_REQUEST,
        Failure(
            StatusKind.BAD_INPUT,
            "the body is not a message of JSON-RPC 2.0",
            "send a request of the Model Context Protocol",
        ),
    )
    if first["type"] == _NO_JSON:
        code, failure = types.PARSE_ERROR, _not_json(first["input"])
    data = failure.document()["error"]
    return types.JSONRPCError(
        jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=failure.message, data=data)
    )


def _not_json(raw: bytes | str) -> Failure:
    """As the HTTP API says it."""
    try:
        json_object(raw, BODY_BYTES_MAX)
    except BadInput as error:
        return Failure.of(error)
    return Failure(StatusKind.BAD_INPUT, "the body is not JSON", "send a JSON object")


class CheckedBodies:
    """app: gets what is not sent to `path`, and messages that are sent there."""

    def __init__(self, app: App, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        messages = await _body_messages(receive)
        body = b"".join(one.get("body", b"") for one in messages)
        try:
            types.jsonrpc_message_adapter.validate_json(body, by_name=False)
        except ValidationError as error:
            await _respond(send, refusal_of(error))
            return
        messages.reverse()

        async def replayed() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, replayed, send)


async def _body_messages(receive: Receive) -> list[Message]:
    messages: list[Message] = []
    while not messages or messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages


async def _respond(send: Send, refusal: types.JSONRPCError) -> None:
    body = refusal.model_dump_json(by_alias=True, exclude_unset=True).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": StatusKind.BAD_INPUT.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_empty(error: ValidationError) -> bool:
    """Whether it is about a line without anything in it."""
    line = error.errors(include_url=False)[0]["input"]
    return isinstance(line, str | bytes) and not line.strip()


class CheckedLines:
    """reading: lines of standard input as messages, or the error of a line that is none. writing: gets the refusals of those."""

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading = reading
        self._writing = writing

    @property
    def last_context(self) -> Any:
        """What the protocol's server runs the handler of the last message in."""
        return self._reading.last_context

    async def receive(self) -> SessionMessage:
        return await self._checked(self._reading.receive)

    async def __anext__(self) -> SessionMessage:
        return await self._checked(self._reading.__anext__)

    async def _checked(self, read: Callable[[], Awaitable[Any]]) -> SessionMessage:
        while isinstance(one := await read(), ValidationError):
            if not _is_empty(one):
                await self._writing.send(SessionMessage(refusal_of(one)))
        message: SessionMessage = one
        return message

    async def aclose(self) -> None:
        await self._reading.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
