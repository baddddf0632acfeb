"""Opens a socket in another network namespace: a thread enters it, opens the socket, and ends."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import Final

from exporter.errors import NotPossibleHere

_CLONE_NEWNET: Final = 0x40000000


def opened_inside(proc: str, tgid: int, make: Callable[[], socket.socket]) -> socket.socket:
    """The socket that make() opens in the network namespace of a process. Needs CAP_SYS_ADMIN. Raises NotPossibleHere."""
    found: list[socket.socket] = []
    failed: list[Exception] = []

    def enter() -> None:
        try:
            fd = os.open(f"{proc}/{tgid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            try:
                _enter(fd)
            finally:
                os.close(fd)
            found.append(make())
        except (OSError, NotPossibleHere) as error:
            failed.append(error)

    # A separate thread, since one that fails to return would stay in the other namespace.
    thread = threading.Thread(target=enter, name="network-namespace", daemon=True)
    thread.start()
    thread.join()
    if not found:
        raise NotPossibleHere(f"cannot enter the network namespace of process {tgid}: {failed[0]}") from failed[0]
    return found[0]


def _enter(fd: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(ctypes.c_int(fd), ctypes.c_int(_CLONE_NEWNET)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
