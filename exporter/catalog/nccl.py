"""NCCL calls, and the progress of collectives."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

OPERATION_DURATION = Metric(
    "gpustall_nccl_operation_duration_seconds",
    "gpustall.nccl.operation.duration",
    "s",
    Kind.HISTOGRAM,
    ("operation", "communicator"),
    "Host time of NCCL calls in seconds, from entry to return: the time to enqueue a collective, not its time on"
    " the GPU. Inside a group, ncclGroupEnd does the work.",
)
OPERATION_BYTES = Metric(
    "gpustall_nccl_operation_bytes_total",
    "gpustall.nccl.operation",
    "By",
    Kind.COUNTER,
    ("operation", "communicator"),
    "Bytes of NCCL calls that returned without error: element count times element size, as the caller passed them.",
)
OPERATION_ERRORS = Metric(
    "gpustall_nccl_operation_errors_total",
    "gpustall.nccl.operation.errors",
    "{error}",
    Kind.COUNTER,
    ("operation", "code"),
    "NCCL calls that returned an error, by numeric code such as 2 for a system error; in progress (7) is not an error.",
)
COMMUNICATOR_INFO = Metric(
    "gpustall_nccl_communicator_info",
    "gpustall.nccl.communicator.info",
    "",
    Kind.INFO,
    ("communicator", "hash", "communicator_rank", "nranks"),
    "Live NCCL communicators: the ordinal used as label, a hash of the unique id (equal on every rank), the rank of"
    " this process in it and the number of ranks; values are empty if its creation was not observed.",
)
ENQUEUED = Metric(
    "gpustall_nccl_enqueued_total",
    "gpustall.nccl.enqueued",
    "{collective}",
    Kind.COUNTER,
    ("communicator",),
    "Collectives, sends and receives whose NCCL call returned without error, inside a group as well; calls captured"
    " into a CUDA graph and the graph's replays are not counted.",
)
COMPLETED = Metric(
    "gpustall_nccl_completed_total",
    "gpustall.nccl.completed",
    "{collective}",
    Kind.COUNTER,
    ("communicator",),
    "Enqueued NCCL operations known to be complete. The exporter learns this when a CUDA call queries or waits for an"
    " event, stream or device behind them and finds it done, so the counter lags the GPU until the next such call;"
    " absent for communicator `other`.",
)
WAIT = Metric(
    "gpustall_nccl_wait_seconds",
    "gpustall.nccl.wait",
    "s",
    Kind.HISTOGRAM,
    ("communicator",),
    "Host time of synchronising CUDA calls in seconds, from entry to return, that had a collective of the"
    " communicator ahead, directly or through events, not known to be done at entry; not the time on the GPU. A call"
    " that waits for two communicators counts for both.",
)
ARRIVAL_LAG = Metric(
    "gpustall_nccl_arrival_lag_seconds_total",
    "gpustall.nccl.arrival_lag",
    "s",
    Kind.COUNTER,
    ("communicator",),
    "Seconds from when the first rank on this node entered a collective's NCCL call until this rank entered it,"
    " summed over collectives; the slowest rank has the most. 0 if a rank is alone on its node or the creation of"
    " the communicator was not observed.",
)

METRICS = (
    OPERATION_DURATION,
    OPERATION_BYTES,
    OPERATION_ERRORS,
    COMMUNICATOR_INFO,
    ENQUEUED,
    COMPLETED,
    WAIT,
    ARRIVAL_LAG,
)
