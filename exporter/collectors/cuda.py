"""What do the CUDA calls of a process cost, copy, allocate, and how do they fail?

In: a Reading of the tables that bpf/cuda.bpf.c fills. Out: Totals of each process.
"""

from __future__ import annotations

from exporter import catalog
from exporter.kernel.abi import Api, Copy
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.rows import ProcessRow, Reading
from exporter.totals import HistogramTotal, Series, Total, Totals, add, error_code_label

_API_LABEL = {Api.RUNTIME: "runtime", Api.DRIVER: "driver"}
_DIRECTION_LABEL = {
    Copy.HOST_TO_HOST: "h2h",
    Copy.HOST_TO_DEVICE: "h2d",
    Copy.DEVICE_TO_HOST: "d2h",
    Copy.DEVICE_TO_DEVICE: "d2d",
    Copy.DEFAULT: "default",
    Copy.PEER: "peer",
}


# The very same for every process: a node may have forty thousand.
_SERIES = tuple(
    tuple(
        Series(metric, (_API_LABEL.get(operation.api, ""), operation.name))
        for metric in (catalog.CUDA_OPERATIONS, catalog.CUDA_OPERATION_DURATION)
    )
    for operation in OPERATIONS
)
"""By operation number: of its calls, and of their time."""


def collect(reading: Reading) -> Totals:
    """Durations, counts, errors, copied bytes and memory of every process that made a CUDA call."""
    totals: Totals = {process: _of_process(row) for process, row in reading.processes.items()}
    for key, row in reading.operations.items():
        operation = OPERATIONS[key.operation]
        of_process = totals.get(key.process)
        if operation.api is Api.NCCL or of_process is None:
            continue
        calls, duration = _SERIES[key.operation]
        of_process[calls] = row.calls
        if row.timed:
            of_process[duration] = HistogramTotal(row.slots, row.total_ns, row.slowest)
    for error, count in reading.errors.items():
        operation = OPERATIONS[error.operation]
        if operation.api is not Api.NCCL:
            labels_with_code = (_API_LABEL[operation.api], operation.name, error_code_label(error.code))
            add(totals, error.process, catalog.CUDA_OPERATION_ERRORS, labels_with_code, count)
    return totals


def _of_process(row: ProcessRow) -> dict[Series, Total]:
    """What is counted per process; zero stays unwritten until the process first copies or allocates."""
    of_process: dict[Series, Total] = {
        Series(catalog.CUDA_MEMCPY_BYTES, (_DIRECTION_LABEL[Copy(direction)],)): copied_bytes
        for direction, copied_bytes in enumerate(row.copied_bytes)
        if copied_bytes
    }
    if row.allocated_bytes:
        of_process[Series(catalog.CUDA_MEMORY_LIVE, ())] = row.allocated_bytes - row.freed_bytes
        of_process[Series(catalog.CUDA_MEMORY_ALLOCATED, ())] = row.allocated_bytes
        of_process[Series(catalog.CUDA_MEMORY_FREED, ())] = row.freed_bytes
    if row.unknown_frees:
        of_process[Series(catalog.CUDA_MEMORY_UNKNOWN_FREES, ())] = row.unknown_frees
    return of_process
