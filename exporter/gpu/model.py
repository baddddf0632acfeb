"""Records of GPUs: samples as the driver reports them, and the state of a GPU as the chain detector needs it.

exporter/gpu/nvml.py makes samples, exporter/gpu/sampler.py the rest. None means that the GPU or its driver does not report it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple


class FailureKind(enum.StrEnum):
    """Why a call to the driver failed. A feature that a GPU does not support is no failure."""

    TIMEOUT = "timeout"
    """The call did not return in time."""
    LOST = "lost"
    """The GPU does not answer: it has fallen off the bus."""
    RESET_REQUIRED = "reset_required"
    """The GPU needs a reset."""
    RECONFIGURED = "reconfigured"
    """The handle of the GPU is not valid any more, such as after MIG instances were created."""
    RELOADED = "reloaded"
    """The driver was unloaded or reloaded."""
    NO_FUNCTION = "no_function"
    """The driver is too old to have the function."""
    NO_PERMISSION = "no_permission"
    DRIVER = "driver"
    """Any other error of the driver."""


class GpuMemory(NamedTuple):
    """Memory of a GPU or a MIG instance. reserved: by the driver and the firmware; None where used_bytes includes it."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    reserved_bytes: int | None = None


class GpuProcess(NamedTuple):
    """A process that computes on a GPU. tgid: in the driver's pid namespace. used_bytes: None when not reported."""

    tgid: int
    used_bytes: int | None


class Instance(NamedTuple):
    """A MIG instance. mig: number of the GPU instance. processes: None when not reported."""

    mig: str
    uuid: str
    model: str
    memory: GpuMemory | None
    processes: tuple[GpuProcess, ...] | None


class GpuFacts(NamedTuple):
    """What does not change while a GPU is installed. gpu: its number in nvidia-smi."""

    gpu: str
    uuid: str
    model: str = ""
    pci_bus_id: str = ""
    driver_version: str = ""
    sm_clock_max_hz: int | None = None
    memory_clock_max_hz: int | None = None
    slowdown_celsius: int | None = None
    link_generation_max: int | None = None
    link_width_max: int | None = None


class Sample(NamedTuple):
    """A GPU at one moment. reasons: the driver's bits (exporter/gpu/throttle_reasons.py).

    processes: of all instances with MIG; None when not reported.
    """

    reasons: int | None = None
    sm_clock_hz: int | None = None
    memory_clock_hz: int | None = None
    power_mw: int | None = None
    power_limit_mw: int | None = None
    energy_mj: int | None = None
    celsius: int | None = None
    memory_celsius: int | None = None
    utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    memory: GpuMemory | None = None
    corrected_errors: int | None = None
    uncorrected_errors: int | None = None
    corrected_rows: int | None = None
    uncorrected_rows: int | None = None
    corrected_pages: int | None = None
    uncorrected_pages: int | None = None
    is_repair_pending: bool | None = None
    has_repair_failed: bool | None = None
    link_generation: int | None = None
    link_width: int | None = None
    pcie_received_bytes: int | None = None
    pcie_sent_bytes: int | None = None
    pcie_received_bytes_per_second: int | None = None
    pcie_sent_bytes_per_second: int | None = None
    pcie_replays: int | None = None
    nvlink_received_bytes: int | None = None
    nvlink_sent_bytes: int | None = None
    nvlink_replays: int | None = None
    nvlink_recoveries: int | None = None
    nvlink_crc_errors: int | None = None
    is_mig: bool | None = None
    instances: tuple[Instance, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None


class GpuRecord(NamedTuple):
    """Everything known of a GPU. sample: the last good one, taken at sampled_ns (CLOCK_MONOTONIC); None before the first.

    throttled_ns: by reason, since the GPU was first sampled. xids: number of an XID error -> how often it occurred since then.
    """

    facts: GpuFacts
    sample: Sample | None
    sampled_ns: int
    throttled_ns: Mapping[str, int]
    xids: Mapping[int, int]


class GpuReading(NamedTuple):
    """Every GPU as last sampled, stale or not. failures: (GPU, "" for the driver as a whole; kind) -> how often so far."""

    records: Sequence[GpuRecord] = ()
    failures: Mapping[tuple[str, FailureKind], int] = MappingProxyType({})


class GpuState(NamedTuple):
    """A GPU (mig is "") or a MIG instance of it, as the chain detector needs it.

    throttled_ns: cumulative by reason. link_bytes_per_second: what the PCIe link can carry one way now; 0: unknown.
    memory_total_bytes: 0: unknown. process_bytes: tgid in the driver's pid namespace -> bytes, of processes that compute there.
    """

    gpu: str
    mig: str
    throttled_ns: Mapping[str, int]
    link_bytes_per_second: float
    memory_total_bytes: int
    process_bytes: Mapping[int, int]


def states_of(record: GpuRecord) -> tuple[GpuState, ...]:
    """The GPU, then its instances; empty before the first sample."""
    sample = record.sample
    if sample is None:
        return ()
    link = link_bytes_per_second(sample.link_generation, sample.link_width)
    parts = [("", sample.memory, sample.processes)]
    parts += [(one.mig, one.memory, one.processes) for one in sample.instances]
    return tuple(
        GpuState(
            record.facts.gpu,
            mig,
            record.throttled_ns,
            link,
            memory.total_bytes if memory else 0,
            {one.tgid: one.used_bytes or 0 for one in processes or ()},
        )
        for mig, memory, processes in parts
    )


_LANE_BYTES_PER_SECOND: Final = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""Generation -> transfers per second times the share that the encoding leaves. Source: PCI Express Base Specification."""


def link_bytes_per_second(generation: int | None, width: int | None) -> float:
    """What a PCIe link can carry one way, packet headers included; 0 when unknown."""
    return _LANE_BYTES_PER_SECOND.get(generation or 0, 0.0) * (width or 0)
