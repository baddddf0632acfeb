"""Listening sockets: at configured addresses, or those that systemd passes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence

from exporter.errors import BadInput

_BACKLOG = 128
_FIRST_DESCRIPTOR = 3  # SD_LISTEN_FDS_START


def listening(addresses: Sequence[tuple[str, int]]) -> list[socket.socket]:
    """One socket for each address; host "" means all of IPv4 and IPv6. Raises BadInput, and then closes them all."""
    found: list[socket.socket] = []
    try:
        for address in addresses:
            found.append(_listening(address))
    except BaseException:
        for one in found:
            one.close()
        raise
    return found


def _listening(address: tuple[str, int]) -> socket.socket:
    host, port = address
    if not host and socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # else IPv4 alone, or its error
            return socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
    try:
        # An IPv6 socket leaves the IPv4 port of the same number free, which may be configured too.
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server(address, family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise BadInput(
            f"cannot listen on {shown(host, port)}: {os.strerror(error.errno or 0) if isinstance(error, OSError) else error}",
            remedy="choose another --web.listen-address",
        ) from error


def from_systemd(environment: Mapping[str, str]) -> list[socket.socket]:
    """The sockets that a service manager passed. Raises BadInput if none of them listens."""
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not count.isascii() or not count.isdigit():
        raise BadInput(
            "--web.systemd-socket: no socket was passed (LISTEN_PID and LISTEN_FDS are not of this process)",
            remedy="start it by a systemd .socket unit, or omit the flag",
        )
    found: list[socket.socket] = []
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count)):
        with contextlib.suppress(OSError):
            one = socket.socket(fileno=descriptor)
            if one.type == socket.SOCK_STREAM and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                one.set_inheritable(False)
                found.append(one)
            else:
                one.detach()
    if not found:
        raise BadInput(
            f"--web.systemd-socket: none of {count} descriptors is a listening stream socket",
            remedy="want ListenStream= in the .socket unit",
        )
    return found


def url_of(listener: socket.socket, *, is_tls: bool) -> str:
    """`https://[::1]:10478`, `unix:/run/socket`."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"unix:{name}"
    return f"{'https' if is_tls else 'http'}://{shown(name[0], name[1])}"


def shown(host: str, port: int) -> str:
    """`127.0.0.1:80`, `[::1]:80`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
