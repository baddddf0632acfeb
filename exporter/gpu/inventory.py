"""Lists the GPUs of this node from the NVIDIA driver's files in /proc, without loading its libraries.

In: /proc/driver/nvidia/gpus. Out: InstalledGpu, sorted by PCI address; none without a driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GPUS = Path("/proc/driver/nvidia/gpus")
MAX_GPUS = 64


class InstalledGpu(NamedTuple):
    """uuid: such as `GPU-1f0a…`. model: such as `NVIDIA H100 80GB HBM3`."""

    uuid: str
    model: str


def gpus(path: Path = GPUS) -> list[InstalledGpu]:
    """GPUs with a model name. One that has fallen off the bus may have none, or be missing."""
    return list(_read(path))[:MAX_GPUS]


def _read(path: Path) -> Iterator[InstalledGpu]:
    for information in sorted(path.glob("*/information")):
        try:
            text = information.read_text(errors="replace")
        except OSError:
            continue
        facts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        gpu = InstalledGpu(facts.get("GPU UUID", "").strip(), facts.get("Model", "").strip())
        if gpu.model:
            yield gpu
