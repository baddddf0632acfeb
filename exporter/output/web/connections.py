"""The open connections of the web server, and which one to close when there are too many."""

from __future__ import annotations

import asyncio
import enum
import ipaddress
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_NETWORK_BITS = 64  # of IPv6, as one subscriber has
_LINGER_NONE = struct.pack("ii", 1, 0)  # struct linger: reset, and keep nothing in the kernel


UserOf = Callable[[tuple[str, int], tuple[str, int]], int | None]
"""The user id of the client's end of a connection between two addresses with ports; None if it is not on this machine."""


def no_user(_client: tuple[str, int], _server: tuple[str, int]) -> None:
    """UserOf where no user can be known."""


class Stage(enum.Enum):
    """What a connection does. IDLE: the server waits for a request. CHECKING: a password is compared."""

    IDLE = enum.auto()
    CHECKING = enum.auto()
    RESPONDING = enum.auto()
    SENDING = enum.auto()


@dataclass(eq=False, slots=True)
class ClientConnection:
    """peer: who is at the other end, as client_of() names it; "" until that is needed.

    since: CLOCK_MONOTONIC seconds of the beginning of the stage.
    """

    client: socket.socket
    peer: str = ""
    task: asyncio.Task[None] | None = None
    stage: Stage = Stage.IDLE
    since: float = field(default_factory=time.monotonic)

    def enter(self, stage: Stage) -> None:
        """Begin a stage."""
        self.stage, self.since = stage, time.monotonic()

    def reset(self) -> None:
        """Drop what the client has not received when the socket is closed."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)


def client_of(client: socket.socket, user_of: UserOf) -> str:
    """`uid 1000` of a program on this machine, which may have any number of addresses; else its address, of IPv6 the network.

    "" if it is gone.
    """
    try:
        peer, own = client.getpeername(), client.getsockname()
    except OSError:
        return ""
    if not isinstance(peer, tuple) or not isinstance(own, tuple):
        return ""
    uid = user_of(peer[:2], own[:2])
    if uid is not None:
        return f"uid {uid}"
    address = ipaddress.ip_address(peer[0].partition("%")[0])
    if address.version == 4 or address.ipv4_mapped:
        return str(address.ipv4_mapped if address.version == 6 else address)
    return str(ipaddress.ip_network((address, _NETWORK_BITS), strict=False))


class ConnectionTable:
    """Connections of the event loop's thread."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._open: set[ClientConnection] = set()

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(list(self._open))

    def has_room(self) -> bool:
        """Whether another connection may be added, if need be in place of the one that has been idle for longest."""
        return len(self._open) < self._max_connections or self.evict(Stage.IDLE)

    def add(self, connection: ClientConnection) -> None:
        """Add a connection, whose task evict() may cancel."""
        self._open.add(connection)

    def discard(self, connection: ClientConnection) -> None:
        """Remove a connection, if it is there."""
        self._open.discard(connection)

    def evict(self, stage: Stage, least_seconds: float = 0.0) -> bool:
        """Close the connection that has been in a stage for longest, and at least so long. Returns whether there was one."""
        longest = min((one for one in self._open if one.stage is stage), key=lambda one: one.since, default=None)
        if longest is None or longest.task is None or time.monotonic() - longest.since < least_seconds:
            return False
        self._open.remove(longest)
        longest.task.cancel()
        return True

    def peers(self, stage: Stage) -> list[str]:
        """Those of the clients in a stage."""
        return [one.peer for one in self._open if one.stage is stage]
