"""cpu: quotas of containers, steal and interrupts to totals."""

from __future__ import annotations

from exporter import catalog
from exporter.catalog import Metric
from exporter.host.machine import CpuTimes
from exporter.hostmetrics.cpu import Cpu
from exporter.model import Identity
from exporter.series.host_totals import TotalsByIdentity
from exporter.totals import Series, Total
from tests.support.cgroups import FakeCgroups, traced

MACHINE = Identity("n")
CONTAINER = Identity("n", container="c")
TTL_NS = 1_000
QUOTA = (catalog.cpu.QUOTA_PERIODS, catalog.cpu.QUOTA_THROTTLED_PERIODS, catalog.cpu.QUOTA_THROTTLED)


def of(totals: TotalsByIdentity, metric: Metric, place: Identity = CONTAINER) -> Total | None:
    """A metric without labels of its own."""
    return totals.get(place, {}).get(Series(metric, ()))


def made(groups: FakeCgroups | None = None, times: CpuTimes | None = None) -> Cpu:
    """A collector that reads these, else nothing."""
    return Cpu(MACHINE, groups or FakeCgroups(), lambda: times, TTL_NS)


class TestQuota:
    """cpu.stat."""

    def test_version_2_counts_microseconds(self) -> None:
        """cpu.max has the quota first, then the period."""
        files = {
            ("/c", "cpu.max"): "40000 100000",
            ("/c", "cpu.stat"): "usage_usec 7\nnr_periods 30\nnr_throttled 20\nthrottled_usec 5\n",
        }
        totals = made(FakeCgroups(2, files, {10: "/c"})).collect(1, [traced(10)])

        assert [of(totals, metric) for metric in QUOTA] == [30, 20, 5_000]

    def test_version_1_counts_nanoseconds(self) -> None:
        """A quota of -1 is none."""
        files = {
            ("/c", "cpu.cfs_quota_us"): "40000",
            ("/c", "cpu.stat"): "nr_periods 30\nnr_throttled 20\nthrottled_time 5000\n",
        }
        totals = made(FakeCgroups(1, files, {10: "/c"})).collect(1, [traced(10)])

        assert [of(totals, metric) for metric in QUOTA] == [30, 20, 5_000]

    def test_cgroup_without_a_quota_has_no_totals(self) -> None:
        """In both versions."""
        stat = {("/c", "cpu.stat"): "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"}
        first = FakeCgroups(1, {("/c", "cpu.cfs_quota_us"): "-1", **stat}, {10: "/c"})
        second = FakeCgroups(2, {("/c", "cpu.max"): "max 100000", **stat}, {10: "/c"})

        assert made(first).collect(1, [traced(10)]) == made(second).collect(1, [traced(10)]) == {}

    def test_quotas_of_ancestors_are_added(self) -> None:
        """Both a container's own quota and its pod's throttle it."""
        files = {
            ("/pod", "cpu.max"): "100000 100000",
            ("/pod", "cpu.stat"): "nr_periods 30\nnr_throttled 1\nthrottled_usec 1\n",
            ("/pod/c", "cpu.max"): "40000 100000",
            ("/pod/c", "cpu.stat"): "nr_periods 30\nnr_throttled 20\nthrottled_usec 5\n",
        }
        totals = made(FakeCgroups(2, files, {10: "/pod/c"})).collect(1, [traced(10)])

        assert [of(totals, metric) for metric in QUOTA] == [60, 21, 6_000]

    def test_cgroup_above_two_containers_counts_for_each(self) -> None:
        """And once for two processes of one container."""
        files = {
            ("/pod", "cpu.max"): "100000 100000",
            ("/pod", "cpu.stat"): "nr_periods 30\nnr_throttled 1\nthrottled_usec 1\n",
        }
        groups = FakeCgroups(2, files, {10: "/pod/c", 11: "/pod/c", 12: "/pod/d"})
        totals = made(groups).collect(1, [traced(10), traced(11), traced(12, container="d")])

        assert of(totals, catalog.cpu.QUOTA_PERIODS) == 30
        assert of(totals, catalog.cpu.QUOTA_PERIODS, Identity("n", container="d")) == 30

    def test_cgroup_that_is_created_again_is_a_reset(self) -> None:
        """With the same path; its counts are added."""
        files = {("/c", "cpu.max"): "1 2", ("/c", "cpu.stat"): "nr_periods 30\nnr_throttled 0\nthrottled_usec 0\n"}
        groups = FakeCgroups(2, files, {10: "/c"})
        cpu = made(groups)
        cpu.collect(1, [traced(10)])
        groups.files["/c", "cpu.stat"] = "nr_periods 4\nnr_throttled 0\nthrottled_usec 0\n"

        assert of(cpu.collect(2, [traced(10)]), catalog.cpu.QUOTA_PERIODS) == 34
        assert cpu.resets == 1


class TestTimes:
    """/proc/stat."""

    def test_times_are_those_of_the_node(self) -> None:
        """In nanoseconds."""
        totals = made(times=CpuTimes(irq_ns=1, softirq_ns=2, steal_ns=3)).collect(1, [])
        metrics = (catalog.cpu.IRQ, catalog.cpu.SOFTIRQ, catalog.cpu.STEAL)

        assert [of(totals, metric, MACHINE) for metric in metrics] == [1, 2, 3]

    def test_sum_that_goes_back_by_a_tick_keeps_its_highest_value(self) -> None:
        """The kernel's own sums do that."""
        times = [CpuTimes(0, 0, 30), CpuTimes(0, 0, 20), CpuTimes(0, 0, 40)]
        cpu = Cpu(MACHINE, FakeCgroups(), lambda: times.pop(0), TTL_NS)

        assert [of(cpu.collect(now, []), catalog.cpu.STEAL, MACHINE) for now in range(3)] == [30, 30, 40]
        assert cpu.resets == 0

    def test_unreadable_times_have_no_totals(self) -> None:
        assert made().collect(1, []) == {}
