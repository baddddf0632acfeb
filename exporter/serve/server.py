"""The HTTP server: TLS, the gate, the API, the pages and the Model Context Protocol, until a signal."""

from __future__ import annotations

import socket
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from exporter.config.web_file import RateLimit
from exporter.output.web.access import AccessControl
from exporter.serve.calls import Calls
from exporter.serve.gate import BODY_BYTES_MAX, Gate
from exporter.serve.http_api import not_routed, routes
from exporter.serve.mcp_messages import CheckedBodies
from exporter.serve.mcp_server import mcp_server
from exporter.serve.page_routes import page_routes
from exporter.serve.sessions import Sessions
from exporter.service.http_server import HttpService, serve_until_signal
from exporter.service.tokens import TokenFile

MCP_PATH: Final = "/mcp"
DEFAULT_LIMIT: Final = RateLimit(interval_seconds=0.05, burst=100)


class Access(NamedTuple):
    """hosts: names of this server. config_file: None for plain HTTP. tokens: None: requests need none."""

    hosts: Collection[str]
    config_file: Path | None
    tokens: TokenFile | None


def application(calls: Calls, access: Access, limit: RateLimit = DEFAULT_LIMIT) -> Gate:
    """The whole of what answers requests."""
    sessions = Sessions()
    app: Starlette = mcp_server(calls).streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=BODY_BYTES_MAX,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate has done it
        custom_starlette_routes=[*routes(calls), *page_routes(calls, access.tokens, sessions)],
    )
    for status in (404, 405):
        app.add_exception_handler(status, not_routed)
    return Gate(CheckedBodies(app, MCP_PATH), access.hosts, access.tokens, limit, sessions)


def serve(listening: socket.socket, calls: Calls, access: Access) -> None:
    """Until SIGINT or SIGTERM. Raises BadInput for a file of certificates that cannot be used."""
    control = AccessControl(access.config_file)
    limit = control.rules().config.rate_limit or DEFAULT_LIMIT
    service = HttpService(application(calls, access, limit), f", MCP at {MCP_PATH}", has_lifespan=True)
    serve_until_signal(service, listening, control)
