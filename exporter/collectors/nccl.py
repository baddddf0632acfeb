"""NCCL calls of a process: durations, bytes and errors by communicator, collectives enqueued and completed, arrival lag.

In: a Reading of the tables that bpf/nccl.bpf.c and bpf/lib/progress.bpf.h fill. Out: Totals of each process.
"""

from __future__ import annotations

from exporter import catalog
from exporter.kernel.abi import COMMUNICATOR_OTHER, Api
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.readings import Reading
from exporter.totals import HistogramTotal, Series, Totals, add, error_code_label


def communicator_label(ordinal: int) -> str:
    """`0` for the first communicator of a process; `other` from the seventeenth on; "" for calls without one."""
    if ordinal == COMMUNICATOR_OTHER:
        return "other"
    return str(ordinal - 1) if ordinal else ""


def collect(reading: Reading) -> Totals:
    totals: Totals = {}
    for key, row in reading.operations.items():
        operation = OPERATIONS[key.operation]
        if operation.api is not Api.NCCL:
            continue
        labels = (operation.name, communicator_label(key.communicator))
        if row.bytes:
            add(totals, key.process, catalog.nccl.OPERATION_BYTES, labels, row.bytes)
        if row.timed:
            series = Series(catalog.nccl.OPERATION_DURATION, labels)
            totals.setdefault(key.process, {})[series] = HistogramTotal(row.slots, row.total_ns, row.slowest)
    for error, count in reading.errors.items():
        operation = OPERATIONS[error.operation]
        if operation.api is Api.NCCL:
            add(
                totals,
                error.process,
                catalog.nccl.OPERATION_ERRORS,
                (operation.name, error_code_label(error.code)),
                count,
            )
    for process, communicators in reading.communicators.items():
        for one in communicators:
            if one.ordinal == COMMUNICATOR_OTHER:
                continue
            known = one.hash != 0
            labels_of_info = (
                communicator_label(one.ordinal),
                f"{one.hash:016x}" if known else "",
                str(one.rank) if one.rank >= 0 else "",
                str(one.ranks) if one.ranks else "",
            )
            totals.setdefault(process, {})[Series(catalog.nccl.COMMUNICATOR_INFO, labels_of_info)] = 1
    _add_progress(totals, reading)
    return totals


def _add_progress(totals: Totals, reading: Reading) -> None:
    for key, progress in reading.progress.items():
        of_process = totals.setdefault(key.process, {})
        labels = (communicator_label(key.communicator),)
        of_process[Series(catalog.nccl.ENQUEUED, labels)] = progress.enqueued
        # Communicators that share the number `other` progress independently: their sum has no meaning.
        if key.communicator != COMMUNICATOR_OTHER:
            of_process[Series(catalog.nccl.ARRIVAL_LAG, labels)] = progress.lag_ns
            if reading.sees_completion:
                of_process[Series(catalog.nccl.COMPLETED, labels)] = progress.completed
    for key, row in reading.nccl_waits.items():
        if row.timed:
            series = Series(catalog.nccl.WAIT, (communicator_label(key.communicator),))
            totals.setdefault(key.process, {})[series] = HistogramTotal(row.slots, row.total_ns, row.slowest)
