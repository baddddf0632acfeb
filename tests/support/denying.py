"""`python -m tests.support.denying ORDERS COMMAND…` runs a command whose system calls are refused as a security module would.

ORDERS: a file with a JSON list of Denial, which may change while the command runs: an empty list denies nothing. Only calls that
are named in the first version are looked at. A supervisor, a process of its own, decides about each of them: seccomp_unotify(2).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import select
import socket
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.under_seccomp import libseccomp

_ACT_ALLOW, _ACT_NOTIFY = 0x7FFF_0000, 0x7FC0_0000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101  # SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # id, pid, flags; number, architecture, instruction, six arguments
_RESPONSE = struct.Struct("=QqiI")
_CONTINUE = 1
_PATH_BYTES = 4096
_PATH_ARGUMENT = {"open": 0, "openat": 1, "openat2": 1, "newfstatat": 1}


class Denial(NamedTuple):
    """Fails a system call with an error. path: expression that a path has to match; argument: (position, value) of a call."""

    call: str
    error: int = errno.EACCES
    path: str = ""
    argument: tuple[int, int] | None = None

    def is_meant(self, arguments: tuple[int, ...], tid: int) -> bool:
        """Whether a call of this name is denied."""
        if self.argument is not None and arguments[self.argument[0]] & 0xFFFFFFFF != self.argument[1]:
            return False
        return not self.path or re.search(self.path, _path(tid, arguments[_PATH_ARGUMENT[self.call]])) is not None


def write_orders(path: Path, *denials: Denial) -> None:
    """Replace the file as a whole: from the next call on this is denied."""
    replacement = path.with_suffix(".new")
    replacement.write_text(json.dumps(denials))
    replacement.replace(path)


def _read_orders(path: Path) -> list[Denial]:
    rows = json.loads(path.read_text())
    return [Denial(call, error, expression, argument and tuple(argument)) for call, error, expression, argument in rows]


def _path(tid: int, address: int) -> str:
    try:
        with Path(f"/proc/{tid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(_PATH_BYTES).partition(b"\0")[0].decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _supervise(listener: int, orders: Path, names: dict[int, str]) -> None:
    """Until every process under the filter has ended."""
    buffer = bytearray(_NOTIFICATION.size)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while not poll.poll()[0][1] & (select.POLLHUP | select.POLLERR):
        buffer[:] = bytes(len(buffer))
        try:
            fcntl.ioctl(listener, _RECEIVE, buffer)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):  # the caller was interrupted, or has ended
                continue
            raise
        identifier, tid, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        refusal = next(
            (
                one.error
                for one in _read_orders(orders)
                if one.call == names[number] and one.is_meant(tuple(arguments), tid)
            ),
            0,
        )
        response = _RESPONSE.pack(identifier, 0, -refusal, 0 if refusal else _CONTINUE)
        try:
            fcntl.ioctl(listener, _SEND, bytearray(response))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise


def _enter(orders: Path) -> None:
    """Start the supervisor, and apply the filter to this process and to all that it starts."""
    library = libseccomp()
    assert library is not None
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ACT_ALLOW)))
    names = {}
    for name in {denial.call for denial in _read_orders(orders)}:
        number = library.seccomp_syscall_resolve_name(name.encode())
        assert number >= 0, name
        names[number] = name
        assert library.seccomp_rule_add(context, ctypes.c_uint32(_ACT_NOTIFY), number, 0) == 0
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        ours.close()
        os.setsid()
        _, (listener,), _, _ = socket.recv_fds(theirs, 1, 1)
        theirs.close()
        null = os.open("/dev/null", os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        _supervise(listener, orders, names)
        os._exit(0)
    theirs.close()
    assert library.seccomp_load(context) == 0
    listener = library.seccomp_notify_fd(context)
    socket.send_fds(ours, [b"x"], [listener])
    os.close(listener)
    ours.close()


if __name__ == "__main__":
    _enter(Path(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - what a launcher is for
