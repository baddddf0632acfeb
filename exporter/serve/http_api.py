"""The tools as an HTTP API with JSON: paths, statuses and bodies. Failures are typed documents, the same as over MCP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from exporter.errors import BadInput
from exporter.fleet.clock_reading import CLOCK_PATH, clock_document, node_clock
from exporter.serve.answering import Endpoint, answering
from exporter.serve.bulk import EXPLANATION, RANKS, SQL_ROWS, TIMELINE_BYTES, Bulk
from exporter.serve.calls import Calls
from exporter.serve.gate import AUDIT, BODY_BYTES_MAX, READER, wants_page
from exporter.serve.openapi import API_VERSION, document
from exporter.serve.page_routes import refused
from exporter.serve.tools import answer
from exporter.serve.tools.failure import Failure, StatusKind
from exporter.serve.tools.registry import Offer
from exporter.serve.tools.tables import QUERY_SQL
from exporter.serve.work import AnswerForm, CallRequest
from exporter.service.request_body import json_object

_LIST: Final = "list"


def routes(calls: Calls) -> list[Route]:
    """Paths of the API."""
    api = _Api(calls)
    paths: tuple[tuple[str, str, Endpoint], ...] = (
        ("GET", "/api/versions", api.versions),
        ("GET", "/api/v1/health", api.health),
        ("GET", CLOCK_PATH, api.clock),
        ("GET", "/api/v1/openapi.json", api.openapi),
        ("GET", f"/api/v1/tools/{_LIST}", api.tools),
        ("POST", "/api/v1/tools/{name}", api.call),
        ("POST", SQL_ROWS.path, api.sql),
        *(("GET", one.path, api.bulk(one)) for one in (TIMELINE_BYTES, EXPLANATION, RANKS)),
    )
    return [Route(path, answering(endpoint, _failed), methods=[method]) for method, path, endpoint in paths]


class _Api:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._began = time.monotonic()

    async def versions(self, _request: Request) -> Response:
        return _json({"versions": [API_VERSION]})

    async def health(self, _request: Request) -> Response:
        return _json({"status": "ok", "up_seconds": round(time.monotonic() - self._began, 3)})

    async def clock(self, _request: Request) -> Response:
        """The clocks of this machine, for those who compare them."""
        return _json(clock_document(node_clock()))

    async def openapi(self, request: Request) -> Response:
        return _json(document(self._offer(request).tools.values()))

    async def tools(self, request: Request) -> Response:
        listed = [
            {
                "name": one.name,
                "description": one.purpose,
                "input_schema": one.input_schema(),
                "output_schema": one.output_schema(),
            }
            for one in self._offer(request).tools.values()
        ]
        return _json({"tools": listed})

    async def call(self, request: Request) -> Response:
        """`{"arguments": {…}}`, or nothing where no argument is needed."""
        name = request.path_params["name"]
        if name == _LIST:
            raise HTTPException(StatusKind.WRONG_METHOD.status, headers={"Allow": "GET"})
        request.scope[AUDIT]["tool"] = str(name)
        wanted = self._offer(request).tool(name)
        body = await _body(request)
        return await self._answered(request, wanted.name, body.get("arguments", {}), set(body) - {"arguments"})

    async def sql(self, request: Request) -> Response:
        """The arguments of query_sql. Lines of JSON where the client accepts them, else the answer of the tool."""
        if SQL_ROWS.media_type in _accepted(request):
            return await self._streamed(request, SQL_ROWS, await _body(request))
        request.scope[AUDIT]["tool"] = QUERY_SQL.name
        return await self._answered(request, QUERY_SQL.name, await _body(request), set())

    async def _answered(self, request: Request, name: str, arguments: Any, unknown: set[str]) -> Response:
        if unknown:
            raise BadInput("the body has more than arguments", remedy='want {"arguments": {…}}')
        self._offer(request).tool(name).checked(arguments)
        wanted = CallRequest(name, arguments, request.scope[READER].scope)
        return _json(await self._calls.document(wanted))

    def _offer(self, request: Request) -> Offer:
        return Offer(request.scope[READER].scope, self._calls.has_fleet)

    def bulk(self, one: Bulk) -> Endpoint:
        """Arguments are those of the query."""

        async def answered(request: Request) -> Response:
            return await self._streamed(request, one, dict(request.query_params))

        return answered

    async def _streamed(self, request: Request, one: Bulk, arguments: dict[str, Any]) -> Response:
        """Ends early if its process does."""
        request.scope[AUDIT]["tool"] = one.name
        one.checked(arguments)
        wanted = CallRequest(one.name, arguments, request.scope[READER].scope, form=AnswerForm.BULK)
        opened = self._calls.frames(wanted)
        frames = await opened.__aenter__()

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for frame in frames:
                    yield frame
            finally:
                await opened.__aexit__(None, None, None)

        return StreamingResponse(pieces(), media_type=one.media_type, headers=dict(one.headers))


async def not_routed(request: Request, error: Exception) -> Response:
    """Paths and methods that there are none of."""
    if isinstance(error, HTTPException) and error.status_code == StatusKind.WRONG_METHOD.status:
        wrong = Failure(StatusKind.WRONG_METHOD, "this path has another method", "see /api/v1/openapi.json")
        return _failed(wrong, error.headers)
    missing = Failure(StatusKind.NOT_FOUND, "there is nothing at this path", "see /api/v1/openapi.json")
    return refused(missing) if wants_page(request.scope) else _failed(missing)


def _accepted(request: Request) -> set[str]:
    """Media types that the client names, without their parameters."""
    return {one.partition(";")[0].strip().lower() for one in request.headers.get("accept", "").split(",")}


async def _body(request: Request) -> dict[str, Any]:
    """A JSON object; an empty body is one without members. Raises BadInput."""
    raw = await request.body()
    return json_object(raw, BODY_BYTES_MAX) if raw else {}


def _json(value: Any) -> Response:
    return Response(answer.encoded(value), media_type="application/json")


def _failed(failure: Failure, headers: Mapping[str, str] | None = None) -> Response:
    body = answer.encoded(failure.document())
    return Response(body, failure.kind.status, headers, "application/json")
