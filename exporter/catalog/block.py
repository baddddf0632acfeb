"""Disks, and the threads that wait for them."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

QUEUE_DURATION = Metric(
    "gpustall_block_queue_duration_seconds",
    "gpustall.block.queue.duration",
    "s",
    Kind.HISTOGRAM,
    ("device", "direction"),
    "Time of a disk's requests from when the kernel made one until it was given to the device, by the container it was made for;"
    " a limit on a container's reads and writes delays them before that. At most 64 devices, then `other`.",
)
DEVICE_DURATION = Metric(
    "gpustall_block_device_duration_seconds",
    "gpustall.block.device.duration",
    "s",
    Kind.HISTOGRAM,
    ("device", "direction"),
    "Time of a disk's requests from when one was given to the device until the device had completed it, by the container it was"
    " made for. At most 64 devices, then `other`.",
)
BYTES = Metric(
    "gpustall_block_bytes_total",
    "gpustall.block",
    "By",
    Kind.COUNTER,
    ("device", "direction"),
    "Bytes that a disk has completed, by the container they were asked for; an empty container is for all that is in none.",
)
ERRORS = Metric(
    "gpustall_block_errors_total",
    "gpustall.block.errors",
    "{error}",
    Kind.COUNTER,
    ("device", "direction"),
    "Requests, or parts of one, that a disk has completed with an error.",
)
WAIT = Metric(
    "gpustall_block_wait_seconds_total",
    "gpustall.block.wait",
    "s",
    Kind.COUNTER,
    ("device",),
    "Time that threads of a traced job, its workers included, slept in a read, write or page fault until a request of the device"
    " was completed; `unknown` where something else ended the sleep, such as a file system's journal.",
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
