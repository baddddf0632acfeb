"""Durations and errors of the CUDA calls of a process.

In: a Reading of the tables that bpf/cuda.bpf.c fills. Out: Totals of each process.
"""

from __future__ import annotations

from exporter import catalog
from exporter.kernel.abi import Api
from exporter.kernel.apis import API_LABEL
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.readings import Reading
from exporter.totals import HistogramTotal, Series, Totals, add, error_code_label

# Shared by all processes: a node may have forty thousand series.
_SERIES = tuple(
    tuple(
        Series(metric, (API_LABEL[operation.api], operation.name))
        for metric in (catalog.cuda.OPERATIONS, catalog.cuda.OPERATION_DURATION)
    )
    for operation in OPERATIONS
)
"""Operation number -> series of its calls and of their durations."""


def collect(reading: Reading) -> Totals:
    totals: Totals = {process: {} for process in reading.processes}
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
            labels_with_code = (API_LABEL[operation.api], operation.name, error_code_label(error.code))
            add(totals, error.process, catalog.cuda.OPERATION_ERRORS, labels_with_code, count)
    return totals
