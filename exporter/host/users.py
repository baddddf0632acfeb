"""The user who answers for a process.

In: /proc/TGID/status and its user namespace. Out: a uid that the process cannot choose: in a namespace of its own a user has
thousands of ids, so that of the user counts who made the outermost namespace below the exporter's.
Source: ioctl_ns(2). Partner in C: share_user() in bpf/lib/share.bpf.h.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from typing import Final

from exporter.host.processes import Processes, translated

STATUS_BYTES_MAX: Final = 16 * 1024
NAMESPACES_MAX: Final = 33  # they nest 32 deep
_UID: Final = re.compile(rb"^Uid:\t(\d{1,10})\t", re.MULTILINE)
_NS_GET_PARENT, _NS_GET_OWNER_UID = 0xB702, 0xB704


def uid_of(processes: Processes, tgid: int) -> int:
    """Raises ProcessGone, NotPossibleHere."""
    found = _UID.search(processes.read(tgid, "status", STATUS_BYTES_MAX))
    uid = int(found[1]) if found else 0
    own = processes.link(os.getpid(), "ns/user") if processes.proc.samefile("/proc") else b""
    if not own or processes.link(tgid, "ns/user") == own:
        return uid
    try:
        return _outermost_owner(f"{processes.proc}/{tgid}/ns/user")
    except OSError as error:
        raise translated(error, tgid, "ns/user") from error


def _outermost_owner(path: str) -> int:
    own = os.stat("/proc/self/ns/user").st_ino  # noqa: PTH116 - follows the link
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(NAMESPACES_MAX):
            parent = fcntl.ioctl(namespace, _NS_GET_PARENT)
            if os.fstat(parent).st_ino == own:
                os.close(parent)
                break
            os.close(namespace)
            namespace = parent
        return int(struct.unpack("I", fcntl.ioctl(namespace, _NS_GET_OWNER_UID, bytes(4)))[0])
    finally:
        os.close(namespace)
