"""Copies, by direction and by the kind of host memory."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

BYTES = Metric(
    "gpustall_cuda_memcpy_bytes_total",
    "gpustall.cuda.memcpy",
    "By",
    Kind.COUNTER,
    ("direction",),
    "Bytes requested by copies that returned without error; an asynchronous copy counts when it is enqueued.",
)
HOST_BYTES = Metric(
    "gpustall_memcpy_host_bytes_total",
    "gpustall.memcpy.host",
    "By",
    Kind.COUNTER,
    ("direction", "memory", "blocking"),
    "Bytes requested by copies between host and GPU that returned without error, by kind of host memory; a blocking"
    " call returns only after that memory was read or written.",
)
HOST_TIME = Metric(
    "gpustall_memcpy_host_time_seconds_total",
    "gpustall.memcpy.host.time",
    "s",
    Kind.COUNTER,
    ("direction", "memory", "blocking"),
    "Host time in seconds of the calls of gpustall_memcpy_host_bytes_total, from entry to return: for blocking"
    " calls the transfer and the stream's earlier work, otherwise the time to enqueue.",
)

METRICS = (
    BYTES,
    HOST_BYTES,
    HOST_TIME,
)
