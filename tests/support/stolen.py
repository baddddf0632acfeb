"""CPU time that the hypervisor took from this machine: durations are longer by it, and no kernel in the machine sees why."""

from __future__ import annotations

import os
from pathlib import Path


def stolen_ns() -> int:
    """Since the boot, of all CPUs together (`steal` of proc_stat(5))."""
    ticks = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
    return ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
