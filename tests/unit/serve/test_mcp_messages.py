"""mcp_messages: what is no message has the failure of the HTTP API, over both transports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from exporter.serve.mcp_messages import CheckedBodies, CheckedLines

REQUEST = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/list"}'
NOT_JSON = "the body is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"


async def _application(_scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def posted(*parts: bytes, path: str = "/mcp") -> tuple[int, bytes]:
    """Status and body of the answer. parts: of the request's body."""
    waiting = [
        {"type": "http.request", "body": one, "more_body": number < len(parts)} for number, one in enumerate(parts, 1)
    ]
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return waiting.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path}
    asyncio.run(CheckedBodies(_application, "/mcp")(scope, receive, send))
    return sent[0]["status"], sent[1]["body"]


def error_of(line: bytes) -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    return refused.value


class _Lines:
    """Standard input, as the transport of the protocol gives it."""

    last_context = None

    def __init__(self, items: Sequence[Any]) -> None:
        self._items = list(items)

    async def __anext__(self) -> Any:
        if not self._items:
            raise StopAsyncIteration
        return self._items.pop(0)


class _Answers:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, message: SessionMessage) -> None:
        self.sent.append(json.loads(message.message.model_dump_json(by_alias=True, exclude_unset=True)))


def read(*items: Any) -> tuple[list[Any], list[Any]]:
    """Messages that pass, and answers to the others."""
    answers = _Answers()

    async def all_of() -> list[Any]:
        return [one async for one in CheckedLines(_Lines(items), answers)]

    return asyncio.run(all_of()), answers.sent


class TestBodies:
    def test_message_passes_as_it_is(self) -> None:
        assert posted(REQUEST[:9], REQUEST[9:]) == (200, REQUEST)

    def test_other_paths_have_other_bodies(self) -> None:
        assert posted(b"{nojson", path="/api/v1/sql") == (200, b"{nojson")

    def test_body_that_is_no_json_has_the_document_of_the_api(self) -> None:
        status, body = posted(b"{nojson")

        assert status == 400
        assert json.loads(body) == {
            "jsonrpc": "2.0",
            "id": None,
            "error": {
                "code": -32700,
                "message": NOT_JSON,
                "data": {
                    "kind": "bad_input",
                    "status": 400,
                    "message": NOT_JSON,
                    "remedy": "send a JSON object",
                },
            },
        }

    @pytest.mark.parametrize("body", [b"[]", b'"x"', b"{}", b'{"jsonrpc": "1.0", "id": 1, "method": "x"}'])
    def test_other_json_is_no_message(self, body: bytes) -> None:
        status, answered = posted(body)
        error = json.loads(answered)["error"]

        assert (status, error["code"]) == (400, -32600)
        assert error["data"]["kind"] == "bad_input"
        assert error["data"]["remedy"]

    def test_bytes_that_are_no_text_are_no_json(self) -> None:
        assert json.loads(posted(b"\xff\xfe")[1])["error"]["code"] == -32700

    def test_deep_json_has_the_limit_of_the_api(self) -> None:
        error = json.loads(posted(b"[" * 1000)[1])["error"]

        assert error["message"] == "the body is JSON with more than 16 levels"


class TestLines:
    def test_line_that_is_no_json_is_answered_and_the_next_one_passes(self) -> None:
        message = SessionMessage(types.jsonrpc_message_adapter.validate_json(REQUEST, by_name=False))
        passed, answers = read(error_of(b"{nojson"), message)

        assert passed == [message]
        assert [(one["id"], one["error"]["code"], one["error"]["message"]) for one in answers] == [
            (None, -32700, NOT_JSON)
        ]
        assert answers[0]["error"]["data"]["kind"] == "bad_input"

    def test_line_that_is_no_message_is_answered(self) -> None:
        _, (answer,) = read(error_of(b"[]"))

        assert answer["error"]["code"] == -32600

    def test_empty_line_is_no_mistake(self) -> None:
        assert read(error_of(b"\n")) == ([], [])
