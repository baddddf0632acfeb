"""gpu: records of GPUs to totals of the node, and memory to totals of ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from docs.generate import ROOT
from exporter import catalog
from exporter.catalog import Metric
from exporter.gpu.model import FailureKind, GpuFacts, GpuMemory, GpuProcess, GpuReading, GpuRecord, Instance, Sample
from exporter.hostmetrics.gpu import MAX_XID, WATCHED_XIDS, Gpu
from exporter.model import Identity
from exporter.series.host_totals import TotalsByIdentity
from exporter.totals import Series, Total
from tests.support.cgroups import traced
from tests.support.gpus import facts, record

MACHINE = Identity("n")
SECOND = 1_000_000_000
TTL_NS = 900 * SECOND
NOW_NS = 1_000 * SECOND


def of(totals: TotalsByIdentity, metric: Metric, *labels: str, place: Identity = MACHINE) -> Total | None:
    """One series."""
    return totals.get(place, {}).get(Series(metric, labels))


def collector_of(*records: GpuRecord, with_processes: bool = True) -> Gpu:
    """A collector that always reads these GPUs."""
    return Gpu(MACHINE, lambda: GpuReading(records), TTL_NS, with_processes=with_processes)


def collector_over_time(records: Iterable[GpuRecord]) -> Gpu:
    """A collector that reads another record of one GPU each time."""
    rest = iter(records)
    return Gpu(MACHINE, lambda: GpuReading((next(rest),)), TTL_NS, with_processes=True)


def totals_of(sample: Sample, **facts_of_it: Any) -> TotalsByIdentity:
    """Totals of GPU 0, which has been sampled just now."""
    one = record(sample, NOW_NS, facts=GpuFacts("0", "GPU-0", **facts_of_it))
    return collector_of(one).collect(NOW_NS, [])


class TestGauges:
    @pytest.mark.parametrize(
        ("sample", "metric", "labels", "value"),
        [
            (Sample(sm_clock_hz=7), catalog.gpu.CLOCK, ("0", "sm"), 7),
            (Sample(memory_clock_hz=7), catalog.gpu.CLOCK, ("0", "memory"), 7),
            (Sample(power_mw=698_250), catalog.gpu.POWER, ("0",), 698_250_000_000),
            (Sample(power_limit_mw=1), catalog.gpu.POWER_LIMIT, ("0",), 1_000_000),
            (Sample(celsius=81), catalog.gpu.TEMPERATURE, ("0", "gpu"), 81),
            (Sample(memory_celsius=91), catalog.gpu.TEMPERATURE, ("0", "memory"), 91),
            (Sample(utilization_percent=97), catalog.gpu.UTILIZATION, ("0", "gpu"), 970_000_000),
            (Sample(memory_utilization_percent=1), catalog.gpu.UTILIZATION, ("0", "memory"), 10_000_000),
            (Sample(corrected_rows=2), catalog.gpu.REMAPPED_ROWS, ("0", "corrected"), 2),
            (Sample(uncorrected_rows=3), catalog.gpu.REMAPPED_ROWS, ("0", "uncorrected"), 3),
            (Sample(corrected_pages=4), catalog.gpu.RETIRED_PAGES, ("0", "corrected"), 4),
            (Sample(uncorrected_pages=5), catalog.gpu.RETIRED_PAGES, ("0", "uncorrected"), 5),
            (Sample(is_repair_pending=True), catalog.gpu.REPAIR, ("0", "pending"), 1),
            (Sample(has_repair_failed=False), catalog.gpu.REPAIR, ("0", "failed"), 0),
            (Sample(link_generation=3), catalog.gpu.LINK_GENERATION, ("0", "current"), 3),
            (Sample(link_width=8), catalog.gpu.LINK_WIDTH, ("0", "current"), 8),
            (Sample(pcie_sent_bytes_per_second=9), catalog.gpu.PCIE_THROUGHPUT, ("0", "sent"), 9),
            (Sample(pcie_received_bytes_per_second=9), catalog.gpu.PCIE_THROUGHPUT, ("0", "received"), 9),
            (Sample(is_mig=False), catalog.gpu.MIG, ("0",), 0),
        ],
    )
    def test_each_value_has_its_series(
        self, sample: Sample, metric: Metric, labels: tuple[str, ...], value: int
    ) -> None:
        """Watts and ratios in billionths."""
        found = of(totals_of(sample), metric, *labels)

        assert (found, type(found)) == (value, int)

    def test_facts_are_an_info_and_maxima(self) -> None:
        totals = totals_of(
            Sample(),
            model="H100",
            pci_bus_id="00000000:3B:00.0",
            driver_version="570.86.15",
            sm_clock_max_hz=1,
            memory_clock_max_hz=2,
            slowdown_celsius=90,
            link_generation_max=5,
            link_width_max=16,
        )

        assert of(totals, catalog.gpu.INFO, "0", "", "GPU-0", "H100", "00000000:3B:00.0", "570.86.15") == 1
        assert of(totals, catalog.gpu.CLOCK_MAX, "0", "sm") == 1
        assert of(totals, catalog.gpu.CLOCK_MAX, "0", "memory") == 2
        assert of(totals, catalog.gpu.TEMPERATURE_SLOWDOWN, "0") == 90
        assert of(totals, catalog.gpu.LINK_GENERATION, "0", "max") == 5
        assert of(totals, catalog.gpu.LINK_WIDTH, "0", "max") == 16

    def test_missing_values_have_no_series(self) -> None:
        """Except that it answers, what it is, and XIDs that have not occurred."""
        (of_machine,) = totals_of(Sample()).values()

        assert {series.metric for series in of_machine} == {
            catalog.gpu.UP,
            catalog.gpu.INFO,
            catalog.gpu.XID_ERRORS,
        }

    def test_memory_without_a_sensor_has_no_temperature(self) -> None:
        """The driver reports 0 then."""
        assert of(totals_of(Sample(memory_celsius=0)), catalog.gpu.TEMPERATURE, "0", "memory") is None

    def test_memory_by_state(self) -> None:
        """Reserved memory only where the driver reports it separately."""
        newer, older = (
            totals_of(Sample(memory=GpuMemory(100, 30, 60, 10))),
            totals_of(Sample(memory=GpuMemory(100, 40, 60))),
        )

        assert [of(newer, catalog.gpu.MEMORY, "0", "", one) for one in ("used", "free", "reserved")] == [30, 60, 10]
        assert [of(older, catalog.gpu.MEMORY, "0", "", one) for one in ("used", "free", "reserved")] == [
            40,
            60,
            None,
        ]

    def test_instances_have_their_memory_and_their_info(self) -> None:
        """In addition to those of the GPU as a whole."""
        sample = Sample(is_mig=True, instances=(Instance("7", "MIG-1", "1g", GpuMemory(10, 4, 6), None),))
        totals = totals_of(sample)

        assert of(totals, catalog.gpu.MEMORY, "0", "7", "used") == 4
        assert of(totals, catalog.gpu.INFO, "0", "7", "MIG-1", "1g", "", "") == 1

    def test_names_are_printable_and_bounded(self) -> None:
        """Whatever the driver reports."""
        totals = totals_of(Sample(), model='a"\n' + "x" * 200)

        assert of(totals, catalog.gpu.INFO, "0", "", "GPU-0", 'a"\ufffd' + "x" * 125, "", "") == 1


class TestClaims:
    def test_booleans_are_numbers(self) -> None:
        """`False` is no value of a metric."""
        totals = totals_of(Sample(is_mig=False, is_repair_pending=True))
        values = of(totals, catalog.gpu.MIG, "0"), of(totals, catalog.gpu.REPAIR, "0", "pending")

        assert values == (0, 1)
        assert [type(value) for value in values] == [int, int]


class TestStale:
    """GPUs that have not been sampled for a while."""

    FULL = Sample(reasons=4, power_mw=1, energy_mj=5, processes=(GpuProcess(10, 7),))

    def test_sample_is_good_for_five_seconds(self) -> None:
        totals = collector_of(record(self.FULL, NOW_NS)).collect(NOW_NS + 5 * SECOND, [])

        assert of(totals, catalog.gpu.UP, "0") == 1
        assert of(totals, catalog.gpu.POWER, "0") == 1_000_000

    def test_stale_gpu_keeps_its_counters_and_has_no_gauges(self) -> None:
        """Up is 0, unlike for a GPU that was never there."""
        one = record(self.FULL, NOW_NS, throttled_ns={"power": 3}, xids={79: 1})
        (of_machine,) = collector_of(one).collect(NOW_NS + 5 * SECOND + 1, [traced(10)]).values()
        xids = {number: Series(catalog.gpu.XID_ERRORS, ("0", str(number))) for number in WATCHED_XIDS}

        assert of_machine == {
            Series(catalog.gpu.UP, ("0",)): 0,
            Series(catalog.gpu.THROTTLED, ("0", "power")): 3,
            **dict.fromkeys(xids.values(), 0),
            xids[79]: 1,
            Series(catalog.gpu.ENERGY, ("0",)): 5_000_000,
        }

    def test_gpu_that_never_answered_is_not_up(self) -> None:
        """Nothing else is known of it."""
        (of_machine,) = collector_of(record(None, facts=facts(3))).collect(NOW_NS, []).values()

        assert of_machine == {Series(catalog.gpu.UP, ("3",)): 0}

    def test_gpu_that_is_back_after_an_hour_continues_counting(self) -> None:
        """It does not start over, which would add everything its driver has ever counted."""
        stale = [record(Sample(energy_mj=1_000), 0)] * 12
        collector = collector_over_time([*stale, record(Sample(energy_mj=1_007), 3_600 * SECOND)])
        for minutes in range(0, 60, 5):
            collector.collect(minutes * 60 * SECOND, [])

        assert of(collector.collect(3_600 * SECOND, []), catalog.gpu.ENERGY, "0") == 1_007_000_000


class TestCounters:
    @pytest.mark.parametrize(
        ("sample", "metric", "labels", "value"),
        [
            (Sample(energy_mj=5), catalog.gpu.ENERGY, ("0",), 5_000_000),
            (Sample(corrected_errors=5), catalog.gpu.ECC_ERRORS, ("0", "corrected"), 5),
            (Sample(uncorrected_errors=5), catalog.gpu.ECC_ERRORS, ("0", "uncorrected"), 5),
            (Sample(pcie_received_bytes=5), catalog.gpu.PCIE_BYTES, ("0", "received"), 5),
            (Sample(pcie_sent_bytes=5), catalog.gpu.PCIE_BYTES, ("0", "sent"), 5),
            (Sample(pcie_replays=5), catalog.gpu.PCIE_REPLAYS, ("0",), 5),
            (Sample(nvlink_received_bytes=5), catalog.gpu.NVLINK_BYTES, ("0", "received"), 5),
            (Sample(nvlink_sent_bytes=5), catalog.gpu.NVLINK_BYTES, ("0", "sent"), 5),
            (Sample(nvlink_replays=5), catalog.gpu.NVLINK_ERRORS, ("0", "replay"), 5),
            (Sample(nvlink_recoveries=5), catalog.gpu.NVLINK_ERRORS, ("0", "recovery"), 5),
            (Sample(nvlink_crc_errors=5), catalog.gpu.NVLINK_ERRORS, ("0", "crc"), 5),
        ],
    )
    def test_each_count_has_its_series(
        self, sample: Sample, metric: Metric, labels: tuple[str, ...], value: int
    ) -> None:
        """Joules in billionths."""
        assert of(totals_of(sample), metric, *labels) == value

    def test_lower_count_is_a_reset(self) -> None:
        """The driver was reloaded, or the GPU reset."""
        collector = collector_over_time(record(Sample(corrected_errors=count)) for count in (30, 4))
        collector.collect(1, [])

        assert of(collector.collect(2, []), catalog.gpu.ECC_ERRORS, "0", "corrected") == 34
        assert collector.resets == 1

    def test_another_gpu_with_that_number_adds_to_its_counters(self) -> None:
        """It is another source, so this is no reset."""
        other = record(Sample(pcie_replays=4), facts=facts(0, "GPU-another"))
        collector = collector_over_time([record(Sample(pcie_replays=30)), other])
        collector.collect(1, [])

        assert of(collector.collect(2, []), catalog.gpu.PCIE_REPLAYS, "0") == 34
        assert collector.resets == 0

    @pytest.mark.parametrize(("number", "label"), [(1, "1"), (79, "79"), (172, "172"), (173, "other"), (0, "other")])
    def test_undocumented_xid_is_other(self, number: int, label: str) -> None:
        """So that a stray number creates no series."""
        totals = collector_of(record(Sample(), xids={number: 2})).collect(NOW_NS, [])

        assert MAX_XID == 172
        assert of(totals, catalog.gpu.XID_ERRORS, "0", label) == 2

    def test_xids_of_alerts_start_at_0(self) -> None:
        """So that increase() sees the first one; the rule lists them."""
        rules = (ROOT / "alerts" / "device.rules.yaml").read_text(encoding="utf-8")
        (named,) = re.findall(r'xid=~"([\d|]+)"', rules)

        assert tuple(map(int, named.split("|"))) == WATCHED_XIDS
        assert {of(totals_of(Sample()), catalog.gpu.XID_ERRORS, "0", number) for number in named.split("|")} == {0}

    def test_undocumented_xids_are_added_up(self) -> None:
        totals = collector_of(record(Sample(), xids={1_000: 2, 2_000: 3})).collect(NOW_NS, [])

        assert of(totals, catalog.gpu.XID_ERRORS, "0", "other") == 5

    def test_failures_are_counted_by_gpu_and_kind(self) -> None:
        """An empty gpu is the driver as a whole."""
        reading = GpuReading(failures={("1", FailureKind.TIMEOUT): 2, ("", FailureKind.RELOADED): 1})
        totals = Gpu(MACHINE, lambda: reading, TTL_NS, with_processes=True).collect(NOW_NS, [])

        assert of(totals, catalog.gpu.ERRORS, "1", "timeout") == 2
        assert of(totals, catalog.gpu.ERRORS, "", "reloaded") == 1

    def test_without_a_driver_there_are_no_totals(self) -> None:
        assert collector_of().collect(NOW_NS, [traced(10)]) == {}


class TestProcesses:
    """Which processes have the memory."""

    SAMPLE = Sample(processes=(GpuProcess(10, 7), GpuProcess(11, 5), GpuProcess(99, 3), GpuProcess(98, None)))

    def test_memory_of_traced_processes_counts_for_their_workload(self) -> None:
        """Two processes of one rank are added up."""
        one = record(self.SAMPLE, NOW_NS)
        totals = collector_of(one).collect(NOW_NS, [traced(10), traced(11), traced(12, rank="1")])

        assert of(totals, catalog.gpu.PROCESS_MEMORY, "0", "", place=traced(10).identity) == 12
        assert traced(12, rank="1").identity not in totals

    def test_memory_of_untraced_processes_is_one_sum(self) -> None:
        """A process without a reported size adds nothing."""
        totals = collector_of(record(self.SAMPLE, NOW_NS)).collect(NOW_NS, [traced(10)])

        assert of(totals, catalog.gpu.UNTRACED_MEMORY, "0", "") == 8

    def test_memory_is_by_mig_instance(self) -> None:
        """And not a second time for the GPU as a whole."""
        inside = (GpuProcess(10, 7),)
        sample = Sample(is_mig=True, instances=(Instance("7", "", "", None, inside),), processes=inside)
        totals = collector_of(record(sample, NOW_NS)).collect(NOW_NS, [traced(10)])

        assert totals[traced(10).identity] == {Series(catalog.gpu.PROCESS_MEMORY, ("0", "7")): 7}
        assert of(totals, catalog.gpu.UNTRACED_MEMORY, "0", "7") == 0
        assert of(totals, catalog.gpu.UNTRACED_MEMORY, "0", "") is None

    def test_in_another_pid_namespace_there_is_no_memory_by_process(self) -> None:
        """A tgid of the driver may be another process here."""
        totals = collector_of(record(self.SAMPLE, NOW_NS), with_processes=False).collect(NOW_NS, [traced(10)])

        assert traced(10).identity not in totals
        assert of(totals, catalog.gpu.UNTRACED_MEMORY, "0", "") is None

    def test_processes_with_tgid_0_do_not_match(self) -> None:
        """A traced process that is not visible here has tgid 0."""
        sample = Sample(processes=(GpuProcess(0, 7),))
        totals = collector_of(record(sample, NOW_NS)).collect(NOW_NS, [traced(0)])

        assert of(totals, catalog.gpu.UNTRACED_MEMORY, "0", "") == 7

    def test_unreported_processes_have_no_series(self) -> None:
        """Not 0."""
        assert of(totals_of(Sample(processes=None)), catalog.gpu.UNTRACED_MEMORY, "0", "") is None
