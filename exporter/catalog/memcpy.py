"""Copies, by direction and by the kind of host memory."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

BYTES = Metric(
    "gpustall_cuda_memcpy_bytes_total",
    "gpustall.cuda.memcpy",
    "By",
    Kind.COUNTER,
    ("direction",),
    "Bytes asked for by copies that returned without error; an asynchronous copy counts when it is enqueued.",
)
HOST_BYTES = Metric(
    "gpustall_memcpy_host_bytes_total",
    "gpustall.memcpy.host",
    "By",
    Kind.COUNTER,
    ("direction", "memory", "blocking"),
    "Bytes that copies between host and GPU were asked for, of calls that returned without error, by the kind of the host's"
    " memory; blocking where the call returns only when that memory has been read or written.",
)
HOST_TIME = Metric(
    "gpustall_memcpy_host_time_seconds_total",
    "gpustall.memcpy.host.time",
    "s",
    Kind.COUNTER,
    ("direction", "memory", "blocking"),
    "Host time in those calls, from entry to return: where they are blocking the bytes went in this time, together with what"
    " the stream had to do before; else it is the time to enqueue.",
)

METRICS = (
    BYTES,
    HOST_BYTES,
    HOST_TIME,
)
