"""Slots in the kernel: bpf/lib/hist.bpf.h and exporter/units.py agree over the whole range."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.kernel.abi import COUNT, NUMBER
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import Kernel, load_object
from exporter.units import slot_of

DURATIONS = 4096
DONE = 1 << 63


def _durations_ns() -> list[int]:
    """Every power of two and eighth of an octave with its neighbours, and random numbers of every size."""
    edges = [int(2 ** (k / 8) / 1.073741824) for k in range(44 * 8)]
    around = {max(edge + off, 0) for edge in edges for off in (-1, 0, 1)} | {1 << k for k in range(63)}
    rng = random.Random(23)
    fill = [rng.getrandbits(rng.randint(1, 62)) for _ in range(DURATIONS - len(around))]
    return [*sorted(around), *fill]


def test_kernel_and_python_use_the_same_slots(tmp_path: Path) -> None:
    """4,096 durations; a kernel program with bpf/lib/hist.bpf.h runs at the next exec."""
    source, built = Path(__file__).with_name("hist_slots.bpf.c"), tmp_path / "hist_slots.bpf.o"
    machine = os.uname().machine
    arch = {"x86_64": "x86", "aarch64": "arm64"}[machine]
    subprocess.run(
        [
            *("clang", "-target", "bpf", "-mcpu=v3", "-g", "-O2", f"-D__TARGET_ARCH_{arch}"),
            *(f"-I/usr/include/{machine}-linux-gnu", "-c", str(source), "-o", str(built)),
        ],
        check=True,
    )
    kernel = Kernel(Libbpf(), AttachKind.SINGLE, {}, {}, {})
    load_object(kernel, built, None, {})
    durations = _durations_ns()
    table = kernel.maps["durations"]
    for index, duration_ns in enumerate(durations):
        table.put(NUMBER.pack(index), COUNT.pack(duration_ns))
    link = kernel.libbpf.attach(kernel.programs["hist_slots"], "hist_slots")
    try:
        subprocess.run(["true"], check=True)
        found = [COUNT.unpack(table.get(NUMBER.pack(i)) or b"")[0] for i in range(DURATIONS)]
    finally:
        kernel.libbpf.destroy_link(link)
        kernel.close()

    assert [value ^ DONE for value in found] == [slot_of(duration_ns) for duration_ns in durations]
