"""NCCL calls, and how far the collectives are."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

OPERATION_DURATION = Metric(
    "gpustall_nccl_operation_duration_seconds",
    "gpustall.nccl.operation.duration",
    "s",
    Kind.HISTOGRAM,
    ("operation", "communicator"),
    "Host time from entry into to return from an NCCL call: the time to enqueue a collective, not the time it takes on the"
    " GPU; inside a group the work is done by ncclGroupEnd.",
)
OPERATION_BYTES = Metric(
    "gpustall_nccl_operation_bytes_total",
    "gpustall.nccl.operation",
    "By",
    Kind.COUNTER,
    ("operation", "communicator"),
    "Element count times element size of the NCCL calls that returned without error, as the caller passed them.",
)
OPERATION_ERRORS = Metric(
    "gpustall_nccl_operation_errors_total",
    "gpustall.nccl.operation.errors",
    "{error}",
    Kind.COUNTER,
    ("operation", "code"),
    "NCCL calls that returned an error, by numeric code such as 2 for a system error; in progress (7) is no error.",
)
COMMUNICATOR_INFO = Metric(
    "gpustall_nccl_communicator_info",
    "gpustall.nccl.communicator.info",
    "",
    Kind.INFO,
    ("communicator", "hash", "communicator_rank", "nranks"),
    "Communicators alive: the ordinal used as label, a hash of the unique id that is equal on every rank, this process's rank"
    " in it and the number of ranks; empty when the making of it was not seen.",
)
ENQUEUED = Metric(
    "gpustall_nccl_enqueued_total",
    "gpustall.nccl.enqueued",
    "{collective}",
    Kind.COUNTER,
    ("communicator",),
    "Collectives, sends and receives whose NCCL call returned without error, inside a group as well, but not while a CUDA graph"
    " is captured; what a graph does when it is replayed is no call.",
)
COMPLETED = Metric(
    "gpustall_nccl_completed_total",
    "gpustall.nccl.completed",
    "{collective}",
    Kind.COUNTER,
    ("communicator",),
    "Of the enqueued ones, those up to the last that a CUDA call has found done, asking or waiting for an event, stream or device"
    " behind it; never more than the GPU has done, and less until somebody asks. Not told of communicator `other`.",
)
WAIT = Metric(
    "gpustall_nccl_wait_seconds",
    "gpustall.nccl.wait",
    "s",
    Kind.HISTOGRAM,
    ("communicator",),
    "Host time from entry into to return from a synchronising CUDA call that had a collective of the communicator ahead of it,"
    " directly or through events, not known to be done at entry; not the time on the GPU. A call that waits for two communicators"
    " counts for both.",
)
ARRIVAL_LAG = Metric(
    "gpustall_nccl_arrival_lag_seconds_total",
    "gpustall.nccl.arrival_lag",
    "s",
    Kind.COUNTER,
    ("communicator",),
    "Time from the moment the first rank on this node entered a collective's NCCL call until this rank entered it, summed over"
    " collectives; the slowest rank has the most. 0 where a rank is alone on its node or the communicator's making was not seen.",
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
