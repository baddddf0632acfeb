"""Programs that are loaded once and shared by tests.

Verifying them takes the kernel 0.7 s, emptying their maps a hundredth of that. Between two tests they are not attached. Programs
that a test has not left as freshly loaded are closed, and the next test loads them again.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

from exporter.config.probes import AttachKind
from exporter.kernel import abi, loader
from exporter.kernel.attachment_numbers import TABLE, AttachmentNumbers
from exporter.kernel.facts import KernelFacts, kernel_facts
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import Kernel
from exporter.kernel.maps import KernelMap
from exporter.kernel.thread_rows import IDLE_NS

# enum bpf_map_type of linux/bpf.h
ARRAY, PER_CPU_ARRAY, TASK_STORAGE = 2, 6, 29

_free: dict[AttachKind | None, list[Kernel]] = defaultdict(list)


def take(wanted: AttachKind | None = None, *, idle_ns: int = IDLE_NS, with_launches: bool = True) -> Kernel:
    """All programs, attached to their fixed attach points, with empty maps. Arguments as for loader.load()."""
    if not _free[wanted]:
        return loader.load(wanted=wanted, idle_ns=idle_ns, with_launches=with_launches)
    kernel = _free[wanted].pop()
    for table in kernel.maps.values():
        _empty(table)
    _drain(kernel)
    kernel.numbers = AttachmentNumbers()
    loader.start(kernel, _facts(), idle_ns=idle_ns, with_launches=with_launches)
    return kernel


def give_back(wanted: AttachKind | None, kernel: Kernel) -> None:
    """Programs of take(); the test has removed its probes."""
    kernel.detach()
    if _is_as_loaded(kernel):
        _free[wanted].append(kernel)
    else:
        kernel.close()


@cache
def _facts() -> KernelFacts:
    return kernel_facts(Libbpf())


def _is_as_loaded(kernel: Kernel) -> bool:
    """Not closed, no probe left, and no skipped run, which the kernel counts as long as a program is loaded."""
    if not kernel.programs or any(kernel.recursion_misses().values()):
        return False
    rows = (abi.ATTACHMENT_ROW.unpack(row) for _, row in kernel.maps[TABLE].items())
    return not any(is_live for _echoes, is_live in rows)


def _drain(kernel: Kernel) -> None:
    ring = kernel.open_events([])
    try:
        ring.consume()
    finally:
        ring.close()


def _empty(table: KernelMap) -> None:
    facts = dict(line.split(":\t") for line in Path(f"/proc/self/fdinfo/{table.fd}").read_text().splitlines())
    kind = int(facts["map_type"])
    if kind == TASK_STORAGE:
        return  # it goes with the tasks
    if kind == PER_CPU_ARRAY:
        row_bytes = (int(facts["value_size"]) + 7) // 8 * 8
        for index in range(table.capacity):
            table.put(abi.NUMBER.pack(index), bytes(row_bytes * _facts().cpus))
        return
    for key, value in list(table.items()):
        if kind != ARRAY:
            table.delete(key)
        elif any(value):
            table.put(key, bytes(len(value)))
