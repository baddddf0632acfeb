"""Events of the kernel, opened for all tasks of one CPU: perf_event_open(2), which has no wrapper in Python.

In: an event and its sampling. Out: a file descriptor, or KernelRefused. PerCpu keeps one open on every CPU that is online.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from exporter.errors import KernelRefused
from exporter.kernel.refusals import remedy_for

DUMMY = 9
"""PERF_COUNT_SW_DUMMY: counts nothing, only carries side-band records."""
MAJOR_FAULTS = 6
"""PERF_COUNT_SW_PAGE_FAULTS_MAJ."""

CPUS = Path("/sys/devices/system/cpu")
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
PARANOID_REMEDY = (
    "add CAP_SYS_ADMIN, without which this kernel opens no perf event while kernel.perf_event_paranoid is above 2,"
    " or set that to 2"
)

T = TypeVar("T")

_SYS_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_TYPE_SOFTWARE = 1
_PARANOID_MAX = 2
"""In the kernel as it is published."""
_OPEN_CLOEXEC = 1 << 3
_ATTRIBUTES_BYTES = 112  # struct perf_event_attr, PERF_ATTR_SIZE_VER5
# type, size, config, period, sample_type, read_format, flags, wakeup_watermark
_ATTRIBUTES = struct.Struct("=IIQQQQQI")


def opened(event: int, cpu: int, *, period: int = 0, flags: int = 0, watermark: int = 0) -> int:
    """Open an event on this CPU; returns the descriptor. period: events per sample, 0: no samples. flags: of perf_event_attr.

    Raises KernelRefused.
    """
    attributes = _ATTRIBUTES.pack(_TYPE_SOFTWARE, _ATTRIBUTES_BYTES, event, period, 0, 0, flags, watermark)
    try:
        return event_fd(attributes.ljust(_ATTRIBUTES_BYTES, b"\0"), cpu)
    except OSError as error:
        raise KernelRefused(
            f"cannot open software event {event} on CPU {cpu}: {error.strerror}",
            remedy=remedy_for(
                "perf_event_open(2)", error.errno or 0, without_sys_admin=PARANOID_REMEDY if is_paranoid() else ""
            ),
        ) from error


def is_paranoid(setting: Path = PARANOID) -> bool:
    """Whether all perf events take CAP_SYS_ADMIN: Debian's and Ubuntu's kernels have such a value, the others do not."""
    try:
        return int(setting.read_text(encoding="ascii")) > _PARANOID_MAX
    except (OSError, ValueError):
        return False


def event_fd(attributes: bytes, cpu: int) -> int:
    """Open the event that `struct perf_event_attr` describes, for all tasks of a CPU. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    fd = int(libc.syscall(_SYS_PERF_EVENT_OPEN[platform.machine()], buffer, -1, cpu, -1, _OPEN_CLOEXEC))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def cpu_numbers(ranges: str) -> list[int]:
    """`0-3,8` -> [0, 1, 2, 3, 8], the kernel's list format."""
    numbers: list[int] = []
    for part in ranges.strip().split(","):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def online_cpus(cpus: Path = CPUS) -> dict[int, int]:
    """Number of each online CPU -> which of its times online this is: another number after it was offline, however shortly.

    Source: drivers/base/topology.c makes the folder `topology` when a CPU comes online, and sysfs numbers its folders.
    """
    return {number: _made(cpus / f"cpu{number}/topology") for number in cpu_numbers((cpus / "online").read_text())}


def _made(folder: Path) -> int:
    try:
        return folder.stat().st_ino
    except OSError:
        return 0


class PerCpu(Generic[T]):
    """One thing that is open on each online CPU, such as an event: the kernel ends it for good when its CPU goes offline.

    open_one: on a CPU; raises KernelRefused. close_one: also what is on a CPU that has gone. Raises KernelRefused, and leaves
    nothing open, if it cannot be opened on one of the CPUs that are online now.
    """

    def __init__(self, open_one: Callable[[int], T], close_one: Callable[[T], None], cpus: Path = CPUS) -> None:
        self._open_one = open_one
        self._close_one = close_one
        self._cpus = cpus
        self._online: dict[int, int] = {}
        self._opened: dict[int, T] = {}
        try:
            self.follow()
        except BaseException:
            self.close()
            raise

    def follow(self) -> list[T]:
        """Close what was on CPUs that have gone offline, open on those that have come online; returns the new ones.

        Raises KernelRefused, once for each time a CPU comes online, when all others are open.
        """
        online = online_cpus(self._cpus)
        for cpu in [cpu for cpu, since in self._online.items() if online.get(cpu) != since]:
            del self._online[cpu]
            if cpu in self._opened:
                self._close_one(self._opened.pop(cpu))
        new, refusal = [], None
        for cpu in sorted(online.keys() - self._online.keys()):
            try:
                self._opened[cpu] = self._open_one(cpu)
            except KernelRefused as error:
                if online_cpus(self._cpus).get(cpu) != online[cpu]:
                    continue  # it went offline in between
                refusal = error
            else:
                new.append(self._opened[cpu])
            self._online[cpu] = online[cpu]
        if refusal is not None:
            raise refusal
        return new

    def opened(self) -> list[T]:
        """What is open now, one for each CPU."""
        return list(self._opened.values())

    def close(self) -> None:
        """Close everything."""
        self._online.clear()
        while self._opened:
            self._close_one(self._opened.popitem()[1])
