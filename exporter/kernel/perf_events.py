"""Software events of the kernel, opened for all tasks of one CPU: perf_event_open(2), which has no wrapper in Python.

In: an event and its sampling. Out: a file descriptor, or KernelRefused.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from pathlib import Path

from exporter.errors import KernelRefused

DUMMY = 9
"""PERF_COUNT_SW_DUMMY: counts nothing, only carries side-band records."""
MAJOR_FAULTS = 6
"""PERF_COUNT_SW_PAGE_FAULTS_MAJ."""

ONLINE = Path("/sys/devices/system/cpu/online")

_SYS_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_TYPE_SOFTWARE = 1
_OPEN_CLOEXEC = 1 << 3
_ATTRIBUTES_BYTES = 112  # struct perf_event_attr, PERF_ATTR_SIZE_VER5
# type, size, config, period, sample_type, read_format, flags, wakeup_watermark
_ATTRIBUTES = struct.Struct("=IIQQQQQI")


def opened(event: int, cpu: int, *, period: int = 0, flags: int = 0, watermark: int = 0) -> int:
    """Open an event on this CPU; returns the descriptor. period: events per sample, 0: no samples. flags: of perf_event_attr.

    Raises KernelRefused.
    """
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(_TYPE_SOFTWARE, _ATTRIBUTES_BYTES, event, period, 0, 0, flags, watermark), _ATTRIBUTES_BYTES
    )
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.syscall(_SYS_PERF_EVENT_OPEN[platform.machine()], attributes, -1, cpu, -1, _OPEN_CLOEXEC))
    if fd < 0:
        reason = os.strerror(ctypes.get_errno())
        raise KernelRefused(
            f"cannot open software event {event} on CPU {cpu}: {reason}", remedy="run as root or with CAP_PERFMON"
        )
    return fd


def cpu_numbers(ranges: str) -> list[int]:
    """`0-3,8` -> [0, 1, 2, 3, 8], the kernel's list format."""
    numbers: list[int] = []
    for part in ranges.strip().split(","):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def online_cpus(path: Path = ONLINE) -> list[int]:
    return cpu_numbers(path.read_text())
