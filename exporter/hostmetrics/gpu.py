"""State of each GPU: clocks, temperature, memory, links, errors; and which processes use its memory.

In: the records of the GPU sampler; the driver is not called here. Out: totals of the node, and memory by traced process. A GPU
whose last sample is old keeps its counters, but has no gauges except `up`. Cost of a scrape: 0.1 ms a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from exporter import catalog
from exporter.catalog import Metric
from exporter.gpu.model import GpuFacts, GpuMemory, GpuProcess, GpuReading, GpuRecord, Sample
from exporter.model import Identity, label_value
from exporter.series.accumulation import OTHER
from exporter.series.host_totals import HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import Series
from exporter.units import NANOSECONDS

STALE_NS: Final = 5 * NANOSECONDS
MAX_RANKS: Final = 512
"""Ranks with memory on GPUs at a time."""
MAX_XID: Final = 172
"""The last number in NVIDIA's catalogue of XID errors when this was written; the first is 1."""

WATCHED_XIDS: Final = (48, 64, 74, 79, 95, 119, 120, 140)
"""XIDs in alerts/device.rules.yaml: their series start at 0, so that increase() sees the first one."""

_PER_MILLI: Final = 1_000_000  # milliwatts and millijoules to billionths
_PER_CENT: Final = NANOSECONDS // 100

Value = tuple[Metric, tuple[str, ...], int | None]
"""A metric, its labels after `gpu`, and a value; None when not reported."""


class Gpu:
    """A HostCollector. with_processes: whether the driver's process ids are those of the exporter's pid namespace."""

    def __init__(
        self, node: Identity, read_gpus: Callable[[], GpuReading], ttl_ns: int, *, with_processes: bool
    ) -> None:
        self._node = node
        self._read_gpus = read_gpus
        self._with_processes = with_processes
        self._totals = HostTotals(ttl_ns, MAX_RANKS)

    @property
    def resets(self) -> int:
        return self._totals.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        self._totals.begin(now_ns)
        identities = {one.tgid: one.identity for one in traced if one.tgid}
        reading = self._read_gpus()
        for record in reading.records:
            gpu, sample = record.facts.gpu, record.sample
            self._add_counters(record)
            is_fresh = sample is not None and now_ns - record.sampled_ns <= STALE_NS
            self._add_gauge(catalog.gpu.UP, gpu, (), int(is_fresh))
            if sample is None or not is_fresh:
                continue
            for metric, labels, value in gauges_of(record.facts, sample):
                if value is not None:
                    self._add_gauge(metric, gpu, labels, int(value))  # a bool has no text that is a number
            for mig, processes in _by_instance(sample):
                if self._with_processes and processes is not None:
                    self._add_processes(gpu, mig, processes, identities)
        for (gpu, kind), times in reading.failures.items():
            self._totals.add_counter("sampler", self._node, Series(catalog.gpu.ERRORS, (gpu, kind.value)), times)
        return self._totals.totals()

    def _add_counters(self, record: GpuRecord) -> None:
        """Also of a GPU that does not answer, or its sources would expire and be counted again from 0."""
        gpu, source = record.facts.gpu, record.facts.uuid
        for reason, throttled_ns in record.throttled_ns.items():
            series = Series(catalog.gpu.THROTTLED, (gpu, reason))
            self._totals.add_counter(source, self._node, series, throttled_ns)
        watched = dict.fromkeys(WATCHED_XIDS, 0) if record.sample else {}
        for number, times in (watched | {**record.xids}).items():
            series = Series(catalog.gpu.XID_ERRORS, (gpu, xid_label(number)))
            self._totals.add_counter((source, number), self._node, series, times)
        for metric, labels, value in counts_of(record.sample) if record.sample else ():
            if value is not None:
                self._totals.add_counter(source, self._node, Series(metric, (gpu, *labels)), value)

    def _add_gauge(self, metric: Metric, gpu: str, labels: tuple[str, ...], value: int) -> None:
        """value: may be True or False."""
        self._totals.add_gauge(self._node, Series(metric, (gpu, *labels)), int(value))

    def _add_processes(
        self, gpu: str, mig: str, processes: Iterable[GpuProcess], identities: Mapping[int, Identity]
    ) -> None:
        untraced = 0
        for one in processes:
            identity = identities.get(one.tgid)
            if identity is None:
                untraced += one.used_bytes or 0
            elif one.used_bytes is not None:
                self._totals.add_gauge(identity, Series(catalog.gpu.PROCESS_MEMORY, (gpu, mig)), one.used_bytes)
        self._add_gauge(catalog.gpu.UNTRACED_MEMORY, gpu, (mig,), untraced)


def xid_label(number: int) -> str:
    """The number in decimal; `other` for one that NVIDIA does not document."""
    return str(number) if 1 <= number <= MAX_XID else OTHER


def gauges_of(facts: GpuFacts, sample: Sample) -> Iterator[Value]:
    """Gauges, and the facts about the GPU."""
    yield catalog.gpu.INFO, _info("", facts, facts.uuid, facts.model), 1
    for one in sample.instances:
        yield catalog.gpu.INFO, _info(one.mig, facts, one.uuid, one.model), 1
    yield catalog.gpu.CLOCK, ("sm",), sample.sm_clock_hz
    yield catalog.gpu.CLOCK, ("memory",), sample.memory_clock_hz
    yield catalog.gpu.CLOCK_MAX, ("sm",), facts.sm_clock_max_hz
    yield catalog.gpu.CLOCK_MAX, ("memory",), facts.memory_clock_max_hz
    yield catalog.gpu.POWER, (), _times(_PER_MILLI, sample.power_mw)
    yield catalog.gpu.POWER_LIMIT, (), _times(_PER_MILLI, sample.power_limit_mw)
    yield catalog.gpu.TEMPERATURE, ("gpu",), sample.celsius
    yield catalog.gpu.TEMPERATURE, ("memory",), sample.memory_celsius or None  # 0: no sensor
    yield catalog.gpu.TEMPERATURE_SLOWDOWN, (), facts.slowdown_celsius
    yield catalog.gpu.UTILIZATION, ("gpu",), _times(_PER_CENT, sample.utilization_percent)
    yield catalog.gpu.UTILIZATION, ("memory",), _times(_PER_CENT, sample.memory_utilization_percent)
    yield from _memory_of("", sample.memory)
    for one in sample.instances:
        yield from _memory_of(one.mig, one.memory)
    yield catalog.gpu.REMAPPED_ROWS, ("corrected",), sample.corrected_rows
    yield catalog.gpu.REMAPPED_ROWS, ("uncorrected",), sample.uncorrected_rows
    yield catalog.gpu.RETIRED_PAGES, ("corrected",), sample.corrected_pages
    yield catalog.gpu.RETIRED_PAGES, ("uncorrected",), sample.uncorrected_pages
    yield catalog.gpu.REPAIR, ("pending",), sample.is_repair_pending
    yield catalog.gpu.REPAIR, ("failed",), sample.has_repair_failed
    yield catalog.gpu.LINK_GENERATION, ("current",), sample.link_generation
    yield catalog.gpu.LINK_GENERATION, ("max",), facts.link_generation_max
    yield catalog.gpu.LINK_WIDTH, ("current",), sample.link_width
    yield catalog.gpu.LINK_WIDTH, ("max",), facts.link_width_max
    yield catalog.gpu.PCIE_THROUGHPUT, ("received",), sample.pcie_received_bytes_per_second
    yield catalog.gpu.PCIE_THROUGHPUT, ("sent",), sample.pcie_sent_bytes_per_second
    yield catalog.gpu.MIG, (), sample.is_mig


def counts_of(sample: Sample) -> Iterator[Value]:
    """Counters of the driver. They start over when it is loaded, some also when the GPU is reset."""
    yield catalog.gpu.ENERGY, (), _times(_PER_MILLI, sample.energy_mj)
    yield catalog.gpu.ECC_ERRORS, ("corrected",), sample.corrected_errors
    yield catalog.gpu.ECC_ERRORS, ("uncorrected",), sample.uncorrected_errors
    yield catalog.gpu.PCIE_BYTES, ("received",), sample.pcie_received_bytes
    yield catalog.gpu.PCIE_BYTES, ("sent",), sample.pcie_sent_bytes
    yield catalog.gpu.PCIE_REPLAYS, (), sample.pcie_replays
    yield catalog.gpu.NVLINK_BYTES, ("received",), sample.nvlink_received_bytes
    yield catalog.gpu.NVLINK_BYTES, ("sent",), sample.nvlink_sent_bytes
    yield catalog.gpu.NVLINK_ERRORS, ("replay",), sample.nvlink_replays
    yield catalog.gpu.NVLINK_ERRORS, ("recovery",), sample.nvlink_recoveries
    yield catalog.gpu.NVLINK_ERRORS, ("crc",), sample.nvlink_crc_errors


def _info(mig: str, facts: GpuFacts, uuid: str, model: str) -> tuple[str, ...]:
    return tuple(map(label_value, (mig, uuid, model, facts.pci_bus_id, facts.driver_version)))


def _memory_of(mig: str, memory: GpuMemory | None) -> Iterator[Value]:
    if memory is not None:
        yield catalog.gpu.MEMORY, (mig, "used"), memory.used_bytes
        yield catalog.gpu.MEMORY, (mig, "free"), memory.free_bytes
        yield catalog.gpu.MEMORY, (mig, "reserved"), memory.reserved_bytes


def _by_instance(sample: Sample) -> Iterator[tuple[str, tuple[GpuProcess, ...] | None]]:
    """Each MIG instance with its processes; without instances the GPU as a whole."""
    if not sample.instances:
        yield "", sample.processes
    for one in sample.instances:
        yield one.mig, one.processes


def _times(factor: int, value: int | None) -> int | None:
    return None if value is None else value * factor
