"""The store as a running program: a writer, and the receivers that feed it, until a signal."""

from __future__ import annotations

import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Final, NamedTuple

from exporter.catalog import CLUSTER_METRICS
from exporter.clock import Clock
from exporter.cluster.folder import StoreFolder
from exporter.cluster.intake import Intake
from exporter.cluster.receiver_http import HttpReceiver, Probes
from exporter.cluster.retention import Retention, RetentionLimits
from exporter.cluster.store import ClusterStore, StoreLimits
from exporter.cluster.writer import StoreWriter
from exporter.config.web_file import RateLimit
from exporter.output.negotiation import Format
from exporter.output.own_exposition import OwnExposition
from exporter.output.web.access import AccessControl
from exporter.own_metrics.store import OwnMetrics
from exporter.service.bearer import BearerCheck
from exporter.service.connections import BoundedConnection
from exporter.service.http_server import HttpService, serve_until_signal
from exporter.service.tokens import TokenFile

DEFAULT_LIMIT: Final = RateLimit(interval_seconds=0.001, burst=2000)
"""A fleet may share one token: 1,000 nodes send 100 requests a second."""
_FILES_MAX: Final = 16_384


class PushConnection(BoundedConnection):
    """Many nodes keep a connection each, and may share an address behind a proxy."""

    connections_max = 8192
    of_address_max = 2048


class StoreSettings(NamedTuple):
    path: Path
    retention: RetentionLimits
    limits: StoreLimits = StoreLimits()


class Doors(NamedTuple):
    """How clients come in. grpc_address: None for HTTP alone. config_file: None for no TLS. tokens: None: needs none."""

    listening: socket.socket
    grpc_address: str | None
    config_file: Path | None
    tokens: TokenFile | None


def serve_store(settings: StoreSettings, doors: Doors) -> None:
    """Until SIGINT or SIGTERM; what was received is written then. Raises BadInput and NotPossibleHere."""
    control = AccessControl(doors.config_file)
    own, clock = OwnMetrics(CLUSTER_METRICS), Clock()
    _allow_many_files()
    with closing(StoreFolder(settings.path)) as folder:
        store = ClusterStore(folder, settings.limits, clock.now().unix_ns)
        writer = StoreWriter(store, Retention(folder, settings.retention, clock.now()), own, clock)
        intake = Intake(writer, own, clock)
        bearer = BearerCheck(doors.tokens, control.rules().config.rate_limit or DEFAULT_LIMIT)
        probes = Probes(_exposition(own), lambda: writer.failure)
        receiver = HttpReceiver(intake, bearer, own, probes)
        service = HttpService(
            receiver,
            f", store at {settings.path}",
            connection=PushConnection,
            also=_beside(doors, control, intake, bearer, own),
        )
        writer.start()
        try:
            serve_until_signal(service, doors.listening, control)
        finally:
            writer.stop()
            intake.close()


@asynccontextmanager
async def _beside(
    doors: Doors, control: AccessControl, intake: Intake, bearer: BearerCheck, own: OwnMetrics
) -> AsyncIterator[None]:
    """gRPC, if it is wanted: it takes 30 MiB."""
    async with AsyncExitStack() as stack:
        if doors.grpc_address is not None:
            from exporter.cluster.receiver_grpc import GrpcReceiver  # noqa: PLC0415

            secured = control if doors.config_file else None
            receiver = GrpcReceiver(intake, bearer, own, doors.grpc_address, secured)
            await stack.enter_async_context(receiver.serving())
        yield


def _exposition(own: OwnMetrics) -> Callable[[], tuple[str, bytes]]:
    exposition = OwnExposition(own)
    return lambda: (Format.TEXT.value, exposition.render(Format.TEXT))


def _allow_many_files() -> None:
    """As many connections as the hard limit allows: the soft one is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, _FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
