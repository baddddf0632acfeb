"""Memory of the GPU, as a process allocates and frees it."""

from __future__ import annotations

from exporter.catalog.metric import Kind, Metric

LIVE = Metric(
    "gpustall_cuda_memory_live_bytes",
    "gpustall.cuda.memory.live",
    "By",
    Kind.GAUGE,
    (),
    "Device and managed memory allocated and not yet freed, of the allocations seen since the exporter started.",
)
PEAK = Metric(
    "gpustall_cuda_memory_peak_bytes",
    "gpustall.cuda.memory.peak",
    "By",
    Kind.GAUGE,
    (),
    "The most device and managed memory that was allocated and not freed at a time, since the process was first seen.",
)
MANAGED = Metric(
    "gpustall_cuda_memory_managed_bytes",
    "gpustall.cuda.memory.managed",
    "By",
    Kind.GAUGE,
    (),
    "Managed memory allocated and not yet freed: part of the live bytes, and the only part that may exceed the GPU's memory.",
)
PINNED = Metric(
    "gpustall_cuda_memory_pinned_bytes",
    "gpustall.cuda.memory.pinned",
    "By",
    Kind.GAUGE,
    (),
    "Host memory that cannot be moved or swapped, because it was allocated by cudaHostAlloc() or registered by"
    " cudaHostRegister() and not yet given back.",
)
ALLOCATIONS = Metric(
    "gpustall_cuda_memory_allocations",
    "gpustall.cuda.memory.allocations",
    "{allocation}",
    Kind.GAUGE,
    (),
    "Allocations that were made and not yet freed, of device, managed and pinned memory.",
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
    "Bytes freed by calls that returned without error, of allocations whose size was seen.",
)
UNKNOWN_FREES = Metric(
    "gpustall_cuda_memory_unknown_frees_total",
    "gpustall.cuda.memory.unknown_frees",
    "{free}",
    Kind.COUNTER,
    (),
    "Frees of addresses whose allocation was not seen; their size is unknown and subtracted from nothing.",
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
