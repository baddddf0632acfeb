"""OTLP over HTTP, and the metrics and health of the store: an ASGI application.

`POST /v1/logs` and `/v1/traces` in protobuf or JSON, with gzip or without; `GET /metrics`, `/healthz` and `/readyz`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, NamedTuple

from exporter.catalog import cluster as catalog
from exporter.cluster import json_request, protobuf_request
from exporter.cluster.answers import Code, RefusedRequest, not_authenticated, too_large, too_often
from exporter.cluster.intake import BODY_BYTES_MAX, Body, BodyForm, Intake, Signal
from exporter.own_metrics.store import OwnMetrics
from exporter.service.bearer import BearerCheck
from exporter.service.request_body import Message, Receive, drop_body
from exporter.service.tokens import TokenReader
from exporter.text.printable import printable

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

_PUSHES: Final = {"/v1/logs": Signal.LOGS, "/v1/traces": Signal.TRACES}
_REJECTED: Final = {Signal.LOGS: "rejectedLogRecords", Signal.TRACES: "rejectedSpans"}
_METRICS, _HEALTH, _READY = "/metrics", "/healthz", "/readyz"
_READING: Final = ("GET", "HEAD")
_PATH_CHARACTERS: Final = 200
_DROPPED_BYTES_MAX: Final = 2 * BODY_BYTES_MAX


class Probes(NamedTuple):
    """metrics: the exposition and its content type. problem: why nothing can be stored now, "" if it can."""

    metrics: Callable[[], tuple[str, bytes]]
    problem: Callable[[], str]


class _RequestBody:
    """is_complete: all of it was read, or there is none."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_complete = False

    async def read(self, bytes_max: int) -> bytes:
        """Raises RefusedRequest for a larger one, and for one that is cut off."""
        parts: list[bytes] = []
        size_bytes = 0
        while not self.is_complete:
            message = await self._receive()
            self.is_complete = not message.get("more_body", False)
            if message["type"] == "http.disconnect":
                raise RefusedRequest(400, Code.INVALID_ARGUMENT, "the connection ended within the request")
            parts.append(message.get("body", b""))
            size_bytes += len(parts[-1])
            if size_bytes > bytes_max:
                raise too_large(BODY_BYTES_MAX)
        return b"".join(parts)


class HttpReceiver:
    """Refused requests are logged, each with the name of its token; accepted ones are counted."""

    def __init__(self, intake: Intake, bearer: BearerCheck, own: OwnMetrics, probes: Probes) -> None:
        self._intake = intake
        self._bearer = bearer
        self._own = own
        self._probes = probes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        form = _form_of(headers)
        address = str((scope.get("client") or ("",))[0])
        reader: TokenReader | None = None
        body = _RequestBody(receive)
        try:
            if scope["path"] in (_HEALTH, _READY):
                status, kind, answer = self._health(scope["path"])
            else:
                reader = self._admitted(headers, address)
                status, kind, answer = await self._answered(scope, body, headers, form, reader)
        except RefusedRequest as refusal:
            log.info(
                "refused token=%s address=%s path=%s status=%d reason=%s",
                json.dumps(reader.name if reader else ""),
                address,
                json.dumps(printable(scope["path"][:_PATH_CHARACTERS])),
                refusal.status,
                json.dumps(printable(str(refusal))),
            )
            self._count(refusal.status)
            if not body.is_complete:
                await drop_body(receive, _DROPPED_BYTES_MAX)
            await _refuse(send, form or BodyForm.JSON, refusal)
            return
        except Exception:
            self._count(500)
            raise
        self._count(status)
        await _send(send, status, {"content-type": kind}, answer)

    def _count(self, status: int) -> None:
        self._own.add(catalog.REQUESTS, 1, "http", str(status))

    def _admitted(self, headers: Mapping[bytes, str], address: str) -> TokenReader:
        reader = self._bearer.reader(headers.get(b"authorization", ""))
        if not self._bearer.is_within_limit(reader, address):
            raise too_often()
        if reader is None:
            raise not_authenticated()
        return reader

    def _health(self, path: str) -> tuple[int, str, bytes]:
        problem = self._probes.problem() if path == _READY else ""
        return (503 if problem else 200), "text/plain; charset=utf-8", f"{problem or 'ok'}\n".encode()

    async def _answered(
        self, scope: Scope, body: _RequestBody, headers: Mapping[bytes, str], form: BodyForm | None, reader: TokenReader
    ) -> tuple[int, str, bytes]:
        signal = _PUSHES.get(scope["path"])
        if signal is None and scope["path"] != _METRICS:
            raise RefusedRequest(
                404, Code.NOT_FOUND, "no such path: there are /v1/logs and /v1/traces; metrics are not stored"
            )
        if (scope["method"] == "POST") != (signal is not None) or (signal is None and scope["method"] not in _READING):
            raise RefusedRequest(405, Code.UNIMPLEMENTED, "wrong method")
        if signal is None:
            return 200, *self._probes.metrics()
        if form is None:
            raise RefusedRequest(415, Code.INVALID_ARGUMENT, f"want {' or '.join(one.value for one in BodyForm)}")
        encoding = headers.get(b"content-encoding", "identity").strip().lower()
        if encoding not in ("gzip", "identity"):
            raise RefusedRequest(415, Code.INVALID_ARGUMENT, "want gzip or no compression")
        size_bytes = _content_length(headers)
        with self._intake.holding(size_bytes):
            content = await body.read(size_bytes)
            taken = await self._intake.take(Body(signal, form, content, encoding == "gzip"), reader)
        if form is BodyForm.PROTOBUF:
            return 200, form.value, protobuf_request.accepted(*taken)
        return 200, form.value, json_request.accepted(*taken, name=_REJECTED[signal])


def _form_of(headers: Mapping[bytes, str]) -> BodyForm | None:
    kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
    return next((one for one in BodyForm if one.value == kind), None)


def _content_length(headers: Mapping[bytes, str]) -> int:
    """What the body may have: what is announced, or the most. Raises RefusedRequest."""
    announced = headers.get(b"content-length", "")
    if not announced.isdecimal():
        return BODY_BYTES_MAX
    if len(announced) > len(str(BODY_BYTES_MAX)) or int(announced) > BODY_BYTES_MAX:
        raise too_large(BODY_BYTES_MAX)
    return int(announced)


async def _refuse(send: Send, form: BodyForm, refusal: RefusedRequest) -> None:
    headers = {"content-type": form.value}
    if refusal.retry_seconds:
        headers["retry-after"] = str(round(refusal.retry_seconds))
    if refusal.code is Code.UNAUTHENTICATED:
        headers["www-authenticate"] = "Bearer"
    if form is BodyForm.PROTOBUF:
        body = protobuf_request.refused(refusal.code, str(refusal), refusal.retry_seconds)
    else:
        body = json_request.refused(refusal.code, str(refusal))
    await _send(send, refusal.status, headers, body)


async def _send(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    known = {
        **headers,
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }
    sent = [(name.encode(), value.encode()) for name, value in known.items()]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
