"""Bodies of requests: one that is JSON, and the rest of one that is not wanted: a client that still sends sees no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final

from exporter.errors import BadInput
from exporter.text import untrusted

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

_SECONDS_MAX: Final = 2.0


def json_object(raw: bytes | str, bytes_max: int) -> dict[str, Any]:
    """Raises BadInput."""
    try:
        found = untrusted.json_value(raw, bytes_max)
    except ValueError as error:
        raise BadInput(f"the body is {error}", remedy="send a JSON object") from None
    if not isinstance(found, dict):
        raise BadInput("the body is not a JSON object", remedy="send a JSON object")
    return found


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
