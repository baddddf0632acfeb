"""Disks, and the threads that wait for them."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

QUEUE_DURATION = Metric(
    "gpustall_block_queue_duration_seconds",
    "gpustall.block.queue.duration",
    "s",
    Kind.HISTOGRAM,
    ("device", "direction"),
    "Queue time of disk requests in seconds, from when the kernel made the request until it was given to the"
    " device, by container; a container's I/O limit delays a request before that. At most 64 devices, then `other`.",
)
DEVICE_DURATION = Metric(
    "gpustall_block_device_duration_seconds",
    "gpustall.block.device.duration",
    "s",
    Kind.HISTOGRAM,
    ("device", "direction"),
    "Device time of disk requests in seconds, from when the request was given to the device until the device"
    " completed it, by container. At most 64 devices, then `other`.",
)
BYTES = Metric(
    "gpustall_block_bytes_total",
    "gpustall.block",
    "By",
    Kind.COUNTER,
    ("device", "direction"),
    "Bytes of completed disk requests, by the container that made them; container is empty for everything outside"
    " containers.",
)
ERRORS = Metric(
    "gpustall_block_errors_total",
    "gpustall.block.errors",
    "{error}",
    Kind.COUNTER,
    ("device", "direction"),
    "Disk requests, or parts of one, that completed with an error.",
)
WAIT = Metric(
    "gpustall_block_wait_seconds_total",
    "gpustall.block.wait",
    "s",
    Kind.COUNTER,
    ("device",),
    "Seconds that threads of a traced job, workers included, slept in a read, write or page fault until a request"
    " of the device completed; device is `unknown` if something else ended the sleep, such as a file system's"
    " journal.",
)
WAITS = Metric(
    "gpustall_block_waits_total",
    "gpustall.block.waits",
    "{wait}",
    Kind.COUNTER,
    ("device",),
    "Sleeps that gpustall_block_wait_seconds_total adds up.",
)

METRICS = (
    QUEUE_DURATION,
    DEVICE_DURATION,
    BYTES,
    ERRORS,
    WAIT,
    WAITS,
)
