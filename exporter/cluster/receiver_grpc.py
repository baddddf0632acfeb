"""OTLP over gRPC: LogsService and TraceService. Others, such as MetricsService, answer UNIMPLEMENTED. The only module with gRPC.

A message is received after its sender is known, and bounded before and after it is decompressed. For this the methods take a
stream, of which they read one message: on the wire that is the same as the unary call of a client.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NoReturn

import grpc
import grpc.aio

from exporter.catalog import cluster as catalog
from exporter.cluster import protobuf_request
from exporter.cluster.answers import Code, RefusedRequest, not_authenticated, too_often
from exporter.cluster.intake import BODY_BYTES_MAX, Body, BodyForm, Intake, Signal
from exporter.config.web_file import ClientCertificate
from exporter.errors import NotPossibleHere
from exporter.output.web.access import AccessControl
from exporter.own_metrics.store import OwnMetrics
from exporter.service.bearer import BearerCheck
from exporter.text.printable import printable

log = logging.getLogger(__name__)

_SERVICES: Final = {
    "opentelemetry.proto.collector.logs.v1.LogsService": Signal.LOGS,
    "opentelemetry.proto.collector.trace.v1.TraceService": Signal.TRACES,
}
CALLS_MAX: Final = 2048
"""At a time. Others are refused with RESOURCE_EXHAUSTED."""
_MESSAGE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 5.0
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", BODY_BYTES_MAX),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.so_reuseport", 0),
)
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class GrpcReceiver:
    """control: certificate and key; read again for each connection. None: without TLS."""

    def __init__(
        self, intake: Intake, bearer: BearerCheck, own: OwnMetrics, address: str, control: AccessControl | None
    ) -> None:
        self._intake = intake
        self._bearer = bearer
        self._own = own
        self._address = address
        self._control = control

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Until the end of the block. Returns the port. Raises NotPossibleHere."""
        server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=CALLS_MAX)
        for service, signal in _SERVICES.items():
            handler = grpc.stream_unary_rpc_method_handler(partial(self._export, signal))
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Export": handler}),))
        try:
            if self._control is None:
                port = server.add_insecure_port(self._address)
            else:
                port = server.add_secure_port(self._address, self._credentials(self._control))
        except RuntimeError as error:
            raise NotPossibleHere(
                f"cannot listen on {self._address} for gRPC", remedy="set --grpc.listen-address to another address"
            ) from error
        await server.start()
        log.info("serving OTLP over gRPC%s on port %d", "" if self._control is None else " with TLS", port)
        try:
            yield port
        finally:
            await server.stop(_STOP_SECONDS)

    def _credentials(self, control: AccessControl) -> Any:
        latest: list[tuple[bytes, bytes]] = []

        def configuration() -> Any:
            """The certificate, or None if it has not changed. gRPC calls it before each handshake, from its own threads."""
            tls = control.rules().config.tls
            assert tls is not None  # noqa: S101 - the caller has looked
            pair = (tls.key, tls.certificate)
            if pair in latest:
                return None
            latest[:] = [pair]
            return grpc.ssl_server_certificate_configuration([pair], root_certificates=tls.client_authorities or None)

        tls = control.rules().config.tls
        needs_client = tls is not None and tls.client_certificate is ClientCertificate.REQUIRED
        return grpc.dynamic_ssl_server_credentials(
            configuration(), configuration, require_client_authentication=needs_client
        )

    async def _export(self, signal: Signal, messages: AsyncIterator[bytes], context: Any) -> bytes:
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        reader = None
        try:
            reader = self._bearer.reader(metadata.get("authorization", ""))
            if not self._bearer.is_within_limit(reader, context.peer().rpartition(":")[0]):
                raise too_often()
            if reader is None:
                raise not_authenticated()
            with self._intake.holding(BODY_BYTES_MAX):
                body = await _first(messages)
            with self._intake.holding(len(body)):
                taken = await self._intake.take(Body(signal, BodyForm.PROTOBUF, body), reader)
        except RefusedRequest as refusal:
            await self._refuse(context, refusal, reader.name if reader else "")
        self._own.add(catalog.REQUESTS, 1, "grpc", grpc.StatusCode.OK.name)
        return protobuf_request.accepted(*taken)

    async def _refuse(self, context: Any, refusal: RefusedRequest, token: str) -> NoReturn:
        code = _CODES[refusal.code]
        log.info(
            "refused token=%s address=%s status=%s reason=%s",
            json.dumps(token),
            json.dumps(printable(context.peer())),
            code.name,
            json.dumps(printable(str(refusal))),
        )
        self._own.add(catalog.REQUESTS, 1, "grpc", code.name)
        details = protobuf_request.refused(refusal.code, str(refusal), refusal.retry_seconds)
        await context.abort(code, str(refusal), (("grpc-status-details-bin", details),))
        raise AssertionError


async def _first(messages: AsyncIterator[bytes]) -> bytes:
    """Raises RefusedRequest for a client that sends none."""
    try:
        return await asyncio.wait_for(anext(messages), _MESSAGE_SECONDS)
    except (StopAsyncIteration, TimeoutError):
        raise RefusedRequest(400, Code.INVALID_ARGUMENT, "no message") from None
