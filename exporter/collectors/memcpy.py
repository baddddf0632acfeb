"""Bytes copied, by direction and kind of host memory, and how long calls take to copy them.

In: the tables of processes and copies that bpf/cuda.bpf.c fills. Out: Totals of each process. Cost: a row for each direction and
kind of memory of a process.
"""

from __future__ import annotations

from exporter import catalog
from exporter.kernel.abi import Copy, HostMemory
from exporter.kernel.readings import Reading
from exporter.totals import Series, Totals

_DIRECTION_LABEL = {
    Copy.HOST_TO_HOST: "h2h",
    Copy.HOST_TO_DEVICE: "h2d",
    Copy.DEVICE_TO_HOST: "d2h",
    Copy.DEVICE_TO_DEVICE: "d2d",
    Copy.DEFAULT: "default",
    Copy.PEER: "peer",
}
_MEMORY_LABEL = {memory: memory.name.lower() for memory in HostMemory}
_BLOCKING_LABEL = ("false", "true")


def collect(reading: Reading) -> Totals:
    """No series before the process first copies that way."""
    totals: Totals = {
        process: {
            Series(catalog.memcpy.BYTES, (_DIRECTION_LABEL[Copy(direction)],)): copied_bytes
            for direction, copied_bytes in enumerate(row.copied_bytes)
            if copied_bytes
        }
        for process, row in reading.processes.items()
    }
    for key, row in reading.gpu.copies.items():
        of_process = totals.get(key.process)
        if of_process is None:
            continue
        labels = (_DIRECTION_LABEL[key.direction], _MEMORY_LABEL[key.memory], _BLOCKING_LABEL[key.is_blocking])
        of_process[Series(catalog.memcpy.HOST_BYTES, labels)] = row.bytes
        of_process[Series(catalog.memcpy.HOST_TIME, labels)] = row.total_ns
    return totals
