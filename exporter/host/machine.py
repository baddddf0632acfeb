"""CPU times and swap of the whole node.

In: the /proc root. Out: plain values; None when the file does not have them. Source: proc(5).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from exporter.units import BOOT_TICKS, NANOSECONDS

_NS_PER_TICK = NANOSECONDS // BOOT_TICKS


class CpuTimes(NamedTuple):
    """All CPUs together, since boot. irq, softirq: hard and soft interrupts. steal: time taken by the hypervisor."""

    irq_ns: int
    softirq_ns: int
    steal_ns: int


def cpu_times(proc: Path) -> CpuTimes | None:
    """The first line of /proc/stat, which counts in hundredths of a second."""
    fields = _first_line(proc / "stat").split()
    if fields[:1] != ["cpu"] or not all(field.isdecimal() for field in fields[1:9]) or len(fields) < 9:
        return None
    irq, softirq, steal = (int(field) * _NS_PER_TICK for field in fields[6:9])
    return CpuTimes(irq, softirq, steal)


def swap_bytes(proc: Path) -> int | None:
    """SwapTotal of /proc/meminfo."""
    return kilobytes(_text(proc / "meminfo"), "SwapTotal")


def kilobytes(text: str, name: str) -> int | None:
    """`VmSwap:\t   12 kB` -> 12288 bytes. text: /proc/meminfo or /proc/TGID/status."""
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        number = rest.split()[:1]
        if key == name and number and number[0].isdecimal():
            return int(number[0]) * 1024
    return None


def _first_line(path: Path) -> str:
    return _text(path).partition("\n")[0]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
