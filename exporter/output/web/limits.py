"""The limits of the web server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """max_requests: whose responses are made or sent at a time. max_connections: that are open.

    Seconds: request_seconds from the connection to the end of the first request, handshake included; idle_seconds until the next
    request on the connection begins; response_seconds for a response to be received by the client, of which guaranteed_seconds
    are guaranteed while other requests wait; slot_wait_seconds that a request waits while max_requests are served.
    """

    max_requests: int
    max_connections: int = 256
    request_seconds: float = 10.0
    idle_seconds: float = 150.0
    response_seconds: float = 30.0
    guaranteed_seconds: float = 0.4
    slot_wait_seconds: float = 0.8
