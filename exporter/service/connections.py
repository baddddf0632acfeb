"""Connections of the HTTP server: few of each address, and none that sends its request slowly."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 10.0
"""For the whole of a request, its body included."""
CONNECTIONS_MAX: Final = 256
OF_ADDRESS_MAX: Final = 64

_open: Counter[str] = Counter()


class BoundedConnection(H11Protocol):
    """Closed if its first request, or one that has begun, is not there in time."""

    connections_max = CONNECTIONS_MAX
    of_address_max = OF_ADDRESS_MAX
    _timer: asyncio.TimerHandle | None = None
    _address = ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        _open[self._address] += 1
        if _open[self._address] > self.of_address_max or _open.total() > self.connections_max:
            transport.abort()
            return
        self._timer = self.loop.call_later(REQUEST_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        _open[self._address] -= 1
        if _open[self._address] <= 0:
            del _open[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.more_body:
            self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
