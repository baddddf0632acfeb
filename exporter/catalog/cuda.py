"""Calls of the CUDA runtime and driver."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

OPERATION_DURATION = Metric(
    "gpustall_cuda_operation_duration_seconds",
    "gpustall.cuda.operation.duration",
    "s",
    Kind.HISTOGRAM,
    ("api", "operation"),
    "Host time of CUDA calls in seconds, from entry to return; for an asynchronous call the time to enqueue it, not"
    " its time on the GPU. A runtime call includes the driver calls it makes, so the two api values must not be"
    " added.",
)
OPERATIONS = Metric(
    "gpustall_cuda_operations_total",
    "gpustall.cuda.operations",
    "{operation}",
    Kind.COUNTER,
    ("api", "operation"),
    "CUDA calls that returned, including driver calls made by a runtime call, which are not timed separately; where"
    " returns are not probed, calls that began.",
)
OPERATION_ERRORS = Metric(
    "gpustall_cuda_operation_errors_total",
    "gpustall.cuda.operation.errors",
    "{error}",
    Kind.COUNTER,
    ("api", "operation", "code"),
    "CUDA calls that returned an error, by numeric code such as 2 for out of memory; not ready (600) is not an error.",
)

METRICS = (
    OPERATION_DURATION,
    OPERATIONS,
    OPERATION_ERRORS,
)
