"""What is known of GPUs: what the driver tells of one at a moment, and what is told of it to whoever looks for causes.

In: nothing. Out: frozen records, and the Protocol of who hands them out. exporter/gpu/nvml.py makes the former, the sampler in
exporter/gpu/sampler.py the latter. None: the device, or its driver, does not tell.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple


class FailureKind(enum.StrEnum):
    """Why something is not known of a GPU. What a device does not support is no trouble."""

    TIMEOUT = "timeout"
    """A call did not return within its time."""
    LOST = "lost"
    """The GPU does not answer: it has fallen off the bus."""
    RESET_REQUIRED = "reset_required"
    """Not before a reset."""
    RECONFIGURED = "reconfigured"
    """What was good to name it by is not any more, such as after MIG instances were made anew."""
    RELOADED = "reloaded"
    """The driver is gone, or has come anew."""
    NO_FUNCTION = "no_function"
    """The driver is older than the function."""
    NO_PERMISSION = "no_permission"
    DRIVER = "driver"
    """Any other error of the driver."""


class GpuMemory(NamedTuple):
    """Of a GPU or a MIG instance. reserved: by the driver and the firmware; None where it is part of what is used."""

    total_bytes: int
    used_bytes: int
    free_bytes: int
    reserved_bytes: int | None = None


class GpuProcess(NamedTuple):
    """One that computes on a GPU. tgid: in the driver's pid namespace. used_bytes: None where the driver does not say."""

    tgid: int
    used_bytes: int | None


class Instance(NamedTuple):
    """A MIG instance. mig: number of the GPU instance. processes: None where they are not told."""

    mig: str
    uuid: str
    model: str
    memory: GpuMemory | None
    processes: tuple[GpuProcess, ...] | None


class GpuFacts(NamedTuple):
    """What does not change while a GPU is there. gpu: its number, as nvidia-smi shows it."""

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
    """A GPU at a moment. reasons: the driver's bits (exporter/gpu/throttle_reasons.py).

    processes: those of all instances where MIG is on; None where they are not told.
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
    """All that is known of a GPU. sample: the last good one, taken at sampled_ns, CLOCK_MONOTONIC; None before the first.

    throttled_ns: by reason, since it was first seen. xids: number of an XID error -> how often it came since then.
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
    """A GPU, mig "", or a MIG instance of it, as whoever looks for causes sees it.

    throttled_ns: cumulative by reason. link_bytes_per_second: what the PCIe link can carry one way now, 0 unknown.
    Bytes are 0 where they are not told. process_bytes: tgid as the driver tells -> bytes; of those that compute there now.
    """

    gpu: str
    mig: str
    throttled_ns: Mapping[str, int]
    link_bytes_per_second: float
    memory_total_bytes: int
    process_bytes: Mapping[int, int]


def states_of(record: GpuRecord) -> tuple[GpuState, ...]:
    """The GPU, then its instances; nothing before its first sample."""
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
"""Generation -> transfers in a second, times what the encoding leaves of them. Source: PCI Express Base Specification."""


def link_bytes_per_second(generation: int | None, width: int | None) -> float:
    """What a PCIe link can carry one way, headers of its packets included; 0 where it is not known."""
    return _LANE_BYTES_PER_SECOND.get(generation or 0, 0.0) * (width or 0)
