"""Calls of the CUDA runtime and driver."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

OPERATION_DURATION = Metric(
    "gpustall_cuda_operation_duration_seconds",
    "gpustall.cuda.operation.duration",
    "s",
    Kind.HISTOGRAM,
    ("api", "operation"),
    "Host time from entry into to return from a CUDA call; for an asynchronous call the time to enqueue it, not the time on"
    " the GPU. Runtime calls include the driver calls they make, so the two api values are never added.",
)
OPERATIONS = Metric(
    "gpustall_cuda_operations_total",
    "gpustall.cuda.operations",
    "{operation}",
    Kind.COUNTER,
    ("api", "operation"),
    "CUDA calls that returned, or that began where returns are not probed, including driver calls made by a runtime call, whose"
    " duration is not recorded separately.",
)
OPERATION_ERRORS = Metric(
    "gpustall_cuda_operation_errors_total",
    "gpustall.cuda.operation.errors",
    "{error}",
    Kind.COUNTER,
    ("api", "operation", "code"),
    "CUDA calls that returned an error, by numeric code such as 2 for out of memory; not ready (600) is no error.",
)

METRICS = (
    OPERATION_DURATION,
    OPERATIONS,
    OPERATION_ERRORS,
)
