"""The rest of a body that is not wanted: without it, a client that still sends would not see the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

_SECONDS_MAX: Final = 2.0


async def drop_body(receive: Receive, bytes_max: int) -> None:
    """Reads what is left, at most so much of it, for a while. receive: of ASGI, not yet at the end of the body."""

    async def drop() -> None:
        dropped_bytes, is_more = 0, True
        while is_more and dropped_bytes < bytes_max:
            message = await receive()
            dropped_bytes += len(message.get("body", b""))
            is_more = message["type"] == "http.request" and message.get("more_body", False)

    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(drop(), _SECONDS_MAX)
