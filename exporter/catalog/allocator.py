"""GPU memory that processes allocate and free."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

LIVE = Metric(
    "gpustall_cuda_memory_live_bytes",
    "gpustall.cuda.memory.live",
    "By",
    Kind.GAUGE,
    (),
    "Bytes of device and managed memory allocated and not yet freed, of allocations observed since the exporter"
    " started.",
)
PEAK = Metric(
    "gpustall_cuda_memory_peak_bytes",
    "gpustall.cuda.memory.peak",
    "By",
    Kind.GAUGE,
    (),
    "Largest number of bytes of device and managed memory allocated at one time, since the process was first observed.",
)
MANAGED = Metric(
    "gpustall_cuda_memory_managed_bytes",
    "gpustall.cuda.memory.managed",
    "By",
    Kind.GAUGE,
    (),
    "Bytes of managed memory allocated and not yet freed: included in the live bytes, and the only part that may"
    " exceed the GPU's memory.",
)
PINNED = Metric(
    "gpustall_cuda_memory_pinned_bytes",
    "gpustall.cuda.memory.pinned",
    "By",
    Kind.GAUGE,
    (),
    "Bytes of pinned host memory, which cannot be moved or swapped: allocated by cudaHostAlloc() or registered by"
    " cudaHostRegister() and not yet released.",
)
ALLOCATIONS = Metric(
    "gpustall_cuda_memory_allocations",
    "gpustall.cuda.memory.allocations",
    "{allocation}",
    Kind.GAUGE,
    (),
    "Allocations of device, managed and pinned memory that are not yet freed.",
)
ALLOCATED = Metric(
    "gpustall_cuda_memory_allocated_bytes_total",
    "gpustall.cuda.memory.allocated",
    "By",
    Kind.COUNTER,
    (),
    "Bytes of device and managed memory allocated by calls that returned without error.",
)
FREED = Metric(
    "gpustall_cuda_memory_freed_bytes_total",
    "gpustall.cuda.memory.freed",
    "By",
    Kind.COUNTER,
    (),
    "Bytes freed by calls that returned without error, of allocations whose size was observed.",
)
UNKNOWN_FREES = Metric(
    "gpustall_cuda_memory_unknown_frees_total",
    "gpustall.cuda.memory.unknown_frees",
    "{free}",
    Kind.COUNTER,
    (),
    "Frees of addresses whose allocation was not observed; their size is unknown and is subtracted from no metric.",
)

METRICS = (
    LIVE,
    PEAK,
    MANAGED,
    PINNED,
    ALLOCATIONS,
    ALLOCATED,
    FREED,
    UNKNOWN_FREES,
)
