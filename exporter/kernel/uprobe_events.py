"""Perf events of uprobes, each for all processes: what programs are attached to where a link has one function only.

In: an open descriptor of a library, file offsets. Out: a descriptor for each, or KernelRefused. To open one takes CAP_PERFMON,
and since 6.16, 5.15.189, 6.1.146, 6.6.99, 6.12.39 and 6.15.7 CAP_SYS_ADMIN (commit ba677dbe77af). To attach a program to an open
event, and to close it, takes none. Links over many functions are not affected.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from exporter.errors import KernelRefused
from exporter.kernel import perf_events
from exporter.kernel.refusals import remedy_for

EVENTS_MAX: Final = 32
"""Opened by one call: each takes a descriptor until a program is attached to it."""
PMU: Final = Path("/sys/bus/event_source/devices/uprobe")

WITHOUT_SYS_ADMIN: Final = (
    "add CAP_SYS_ADMIN, without which this kernel opens no single uprobe: `run` passes it to a process that does nothing else;"
    " kernel 6.6 and newer need none with --probes.attach=auto"
)

# struct perf_event_attr: type, size, config, four unused members, wakeup and bp_type; then config1, the path, and config2, the
# offset; the rest up to VER5 stays 0.
_ATTRIBUTES = struct.Struct("=IIQ32xIIQQ40x")


def opened(library_fd: int, offsets: Sequence[int], *, is_return: bool) -> list[int]:
    """A descriptor for each offset, in their order. Raises KernelRefused, and leaves none open."""
    events: list[int] = []
    try:
        for offset in offsets:
            events.append(_opened(f"/proc/self/fd/{library_fd}", offset, is_return=is_return))
    except OSError as error:
        for event in events:
            os.close(event)
        raise _refusal(error) from error
    return events


def open_one() -> None:
    """Raises KernelRefused if this thread may not open events: then the kernel refuses before it looks at the file."""
    try:
        os.close(_opened("/", 0, is_return=False))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise _refusal(error) from error


def _refusal(error: OSError) -> KernelRefused:
    remedy = remedy_for("perf_event_open(2)", error.errno or 0, without_sys_admin=WITHOUT_SYS_ADMIN)
    return KernelRefused(f"cannot open a uprobe: {error.strerror}", remedy=remedy)


def _opened(path: str, offset: int, *, is_return: bool) -> int:
    """Raises OSError."""
    where = ctypes.create_string_buffer(path.encode())
    returns = int((PMU / "format" / "retprobe").read_text(encoding="ascii").strip().removeprefix("config:"))
    kind = int((PMU / "type").read_text(encoding="ascii"))
    attributes = _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, is_return << returns, 0, 0, ctypes.addressof(where), offset)
    # An event of all tasks belongs to a CPU; a program that is attached to it runs on every CPU.
    return perf_events.event_fd(attributes, min(perf_events.online_cpus()))
